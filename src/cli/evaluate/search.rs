//! Codes with a given number of nonzeros in all, as good as each coder can make them.
//!
//! A coder of the l1 form may reach that number by its penalty alone, or by a smaller penalty and a limit
//! for every signal; one of another form has only the limit. A limit for every signal is coarse: where the
//! nonzeros do not divide evenly the signals that gain most get one more than the rest. Of all the penalties
//! tried the one whose codes decode best is kept: whoever compresses a table can do the same.

use std::time::Instant;

use anyhow::{Context, Result};

use super::watch::Watch;
use crate::math::coders::{Fksc, Form};
use crate::math::{
    Code, Coder, CoderOptions, Codes, ExitReason, PreparedDictionary, SignalReport, Signals, decoders,
};

/// How close the number of nonzeros must come.
const CLOSE: f64 = 0.002;
const MOST_STEPS: usize = 40;
/// As a share of the first one that is sparse enough: codes hardly change below it.
const SMALLEST_PENALTY: f64 = 1e-9;
/// Penalties that are tried beside a limit, as multiples of the dictionary's.
const PENALTIES: [f64; 4] = [0.01, 0.1, 1.0, 10.0];

/// What is coded, over which dictionary.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub dictionary: &'a PreparedDictionary,
    pub signals: &'a Signals<'a>,
    pub tolerance: f64,
    pub watch: &'a Watch,
}

/// What makes codes sparse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sparsity {
    pub lambda: f64,
    /// Nonzeros in all, where they are limited signal by signal.
    pub limit: Option<usize>,
}

/// Codes of all signals, the time they took, and the signals they decode to.
pub(super) struct Found {
    pub sparsity: Sparsity,
    pub codes: Codes,
    pub seconds: f64,
    pub decoded: Vec<f64>,
}

impl Problem<'_> {
    /// The best of the ways in which a coder can use at most `allowed` nonzeros; `lambda` is the penalty
    /// that alone leaves so many.
    pub fn best(&self, coder: &dyn Coder, lambda: f64, allowed: usize) -> Result<Found> {
        let usual = self.dictionary.dictionary().lambda();
        let limited = |factor: &f64| Sparsity { lambda: factor * usual, limit: Some(allowed) };
        let mut ways: Vec<Sparsity> = match coder.heeds().contains(&"lambda") {
            true => PENALTIES.iter().map(limited).collect(),
            false => vec![limited(&1.0)],
        };
        if coder.form() == Form::L1 {
            ways.push(Sparsity { lambda, limit: None });
        }
        let mut best: Option<(f64, Found)> = None;
        for way in ways {
            let found = self.encode(coder, way)?;
            let error = self.absolute_error(&found.decoded);
            if best.as_ref().is_none_or(|(least, _)| error < *least) {
                best = Some((error, found));
            }
        }
        // Cannot be absent: there is at least one way.
        best.map(|(_, found)| found).context("no way to code")
    }

    /// Codes in a given way.
    pub fn encode(&self, coder: &dyn Coder, sparsity: Sparsity) -> Result<Found> {
        let options = CoderOptions::new(sparsity.lambda)?.with_tolerance(self.tolerance)?;
        let (codes, seconds) = match sparsity.limit {
            Some(allowed) => self.limited(coder, options, allowed)?,
            None => self.timed(coder, options)?,
        };
        let decoded = decoders::decode(self.dictionary, &codes.rows().collect::<Vec<_>>())?;
        Ok(Found { sparsity, codes, seconds, decoded })
    }

    fn timed(&self, coder: &dyn Coder, options: CoderOptions) -> Result<(Codes, f64)> {
        self.watch.go_on()?;
        let start = Instant::now();
        let codes = coder.encode(self.dictionary, self.signals, &options)?;
        Ok((codes, start.elapsed().as_secs_f64()))
    }

    fn absolute_error(&self, decoded: &[f64]) -> f64 {
        let rows = self.signals.rows().iter().zip(decoded.chunks_exact(self.signals.dim()));
        let errors = rows.flat_map(|(original, decoded)| original.iter().zip(decoded));
        errors.map(|(original, decoded)| (original - decoded).abs()).sum()
    }

    /// The smallest penalty, near enough, with at most `allowed` nonzeros.
    pub fn penalty_for(&self, allowed: usize) -> Result<f64> {
        let count = |lambda: f64| -> Result<usize> {
            self.watch.go_on()?;
            let options = CoderOptions::new(lambda)?.with_tolerance(self.tolerance)?;
            Ok(Fksc.encode(self.dictionary, self.signals, &options)?.nonzeros())
        };
        let mut high = self.dictionary.dictionary().lambda();
        while count(high)? > allowed {
            high *= 4.0;
        }
        let mut low = high / 4.0;
        // Codes may be sparse enough without any penalty to speak of.
        let smallest = SMALLEST_PENALTY * high;
        while count(low)? <= allowed && low > smallest {
            (high, low) = (low, low / 4.0);
        }
        for _ in 0..MOST_STEPS {
            let middle = (low * high).sqrt();
            let nonzeros = count(middle)?;
            if nonzeros > allowed {
                low = middle;
            } else {
                high = middle;
                if (allowed - nonzeros) as f64 <= CLOSE * allowed as f64 {
                    break;
                }
            }
        }
        Ok(high)
    }

    /// Codes with at most `allowed` nonzeros in all, limited signal by signal.
    fn limited(&self, coder: &dyn Coder, options: CoderOptions, allowed: usize) -> Result<(Codes, f64)> {
        let count = self.signals.len();
        let (limit, left_over) = (allowed / count, allowed % count);
        if left_over == 0 {
            return self.timed(coder, options.with_max_nonzeros(limit)?);
        }
        let (few, first_seconds) = match limit {
            0 => (self.empty_codes(), 0.0),
            _ => self.timed(coder, options.with_max_nonzeros(limit)?)?,
        };
        let (more, seconds) = self.timed(coder, options.with_max_nonzeros(limit + 1)?)?;
        let (fit_of_few, fit_of_more) = (fits(&few, options.lambda()), fits(&more, options.lambda()));
        let mut by_gain: Vec<usize> = (0..count).collect();
        by_gain.sort_by(|a, b| {
            let gain = |signal: usize| fit_of_few[signal] - fit_of_more[signal];
            gain(*b).total_cmp(&gain(*a)).then(a.cmp(b))
        });
        let mut gets_more = vec![false; count];
        by_gain[..left_over].iter().for_each(|signal| gets_more[*signal] = true);
        let chosen = |signal: usize| {
            let codes = if gets_more[signal] { &more } else { &few };
            (codes.row(signal), codes.reports[signal])
        };
        let codes = Codes::from_rows(self.dictionary.dictionary().len(), (0..count).map(chosen));
        Ok((codes, first_seconds + seconds))
    }

    fn empty_codes(&self) -> Codes {
        let kernel = self.dictionary.dictionary().kernel();
        let rows = self.signals.rows().iter().map(|signal| {
            let square: f64 = signal.iter().map(|value| value * value).sum();
            let objective = 0.5 * kernel.self_similarity(square);
            let report =
                SignalReport { objective, rounds: 0, updates: 0, gap: 0.0, exit: ExitReason::Truncated };
            ((&[][..], &[][..]), report)
        });
        Codes::from_rows(self.dictionary.dictionary().len(), rows)
    }
}

/// `1/2 ||phi(y) - phi(X) w||^2` of every signal.
fn fits(codes: &Codes, lambda: f64) -> Vec<f64> {
    let penalty = |(_, weights): Code<'_>| lambda * weights.iter().map(|weight| weight.abs()).sum::<f64>();
    codes.rows().zip(&codes.reports).map(|(code, report)| report.objective - penalty(code)).collect()
}
