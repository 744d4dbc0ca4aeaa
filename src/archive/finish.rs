//! From what was measured roughly to what is kept: the best choices are learned and measured in full.

use super::candidates::{ATOMS, Candidates, Family, LAMBDA, Measurement, WEIGHTS};
use super::choose::{Chosen, Tried};
use super::drift::Promise;
use super::quantiser::Bound;
use super::space::Space;
use super::trial::Effort;
use super::{ArchiveError, Result};
use crate::math::search::{Found, Goal, Measured, tune};

/// Choices of a search that are recorded at most, each in about so many bytes, and the part of an archive that they may
/// take.
const MOST_RECORDED: usize = 16;
const RECORDED_BYTES: f64 = 20.0;
const OF_ARCHIVE: f64 = 0.005;
/// Choices that are this close to each other roughly may turn out the other way round in full: so many are tried where
/// values are few.
const NEARLY_THE_BEST: f64 = 1.04;
const MOST_FINALISTS: usize = 4;
/// Tighter bounds, as shares of the one that was asked for.
const TIGHTER: [f64; 4] = [0.85, 0.7, 0.5, 0.35];
/// A bound that costs so much more than the one before says that tighter ones cost more still.
const STEEP: f64 = 1.03;
/// A tighter bound saves at least this much.
const SAVES: f64 = 0.999;

/// The limit that rough measurements should keep so that what comes out in the end, with atoms learned from more rows
/// for longer, is just within that of the goal.
pub(super) fn in_rough_terms(
    candidates: &Candidates<'_>,
    goal: Goal,
    family: Family,
    (rough_goal, found): (Goal, &Found),
) -> Result<Goal> {
    let full = in_full(candidates, family, &found.rungs, found.knob, Vec::new())?;
    Ok(rough_goal.eased(found.excess / goal.excess(&candidates.counted(&full.outcome))))
}

fn in_full(
    candidates: &Candidates<'_>,
    family: Family,
    rungs: &[usize],
    knob: f64,
    record: Vec<Tried>,
) -> Result<Measurement> {
    let measurement = candidates.measure(family, rungs, knob, Effort::Full, record)?;
    candidates.judged(family, rungs, knob, measurement)
}

/// The best choices of a search, in the order in which they were tried: all of them would be a tenth of a small archive.
fn worth_recording(goal: Goal, record: &[Tried], bytes: f64) -> Vec<Tried> {
    // A search of one choice tells nothing.
    let most = ((OF_ARCHIVE * bytes / RECORDED_BYTES) as usize).min(MOST_RECORDED);
    if record.len() < 2 || most < 2 {
        return Vec::new();
    }
    // What a choice would cost at the limit, about: what is above it costs as much more.
    let cost = |tried: &Tried| {
        let measured = Measured { bytes: tried.bytes as f64, nmae: tried.nmae, max_error: 0.0 };
        goal.cost(&measured) * goal.excess(&measured).max(1.0)
    };
    let mut best: Vec<usize> = (0..record.len()).collect();
    best.sort_by(|a, b| cost(&record[*a]).total_cmp(&cost(&record[*b])).then(a.cmp(b)));
    best.truncate(most);
    best.sort_unstable();
    best.into_iter().map(|i| record[i].clone()).collect()
}

/// What came out of a choice.
pub(super) struct Finished {
    pub chosen: Chosen,
    /// Before the knob was turned: what rough measurements were off by.
    pub excess_at_first: f64,
}

/// The same choice with fewer or more atoms where that turns out better: rough measurements do not tell neighbours apart.
pub(super) fn with_other_atoms(
    candidates: &Candidates<'_>,
    goal: Goal,
    family: Family,
    found: &Found,
    record: &[Tried],
    chosen: Chosen,
) -> Result<Chosen> {
    let (start, rungs) = (found.rungs[ATOMS], candidates.ladders(family)[ATOMS].rungs);
    let (fewer, more) = ((0..start).rev().collect::<Vec<_>>(), (start + 1..rungs).collect::<Vec<_>>());
    let mut best = chosen;
    for direction in [fewer, more] {
        let mut is_better = false;
        for atoms in direction {
            let mut other = found.clone();
            other.rungs[ATOMS] = atoms;
            let other = finish(candidates, goal, family, &other, record)?.chosen;
            if !goal.prefers(&candidates.counted(&other.outcome), &candidates.counted(&best.outcome)) {
                break;
            }
            (best, is_better) = (other, true);
        }
        if is_better {
            break;
        }
    }
    Ok(best)
}

/// Turns the knob once more with all that was looked at, and keeps what comes out.
pub(super) fn finish(
    candidates: &Candidates<'_>,
    goal: Goal,
    family: Family,
    found: &Found,
    record: &[Tried],
) -> Result<Finished> {
    let bytes = if let Goal::Bytes(limit) = goal { limit } else { found.cost };
    let record = worth_recording(goal, record, bytes);
    let (mut best, mut excess_at_first): (Option<(f64, Measurement)>, _) = (None, None);
    let last = (candidates.positions(family) - 1) as f64;
    let counted = |measurement: &Measurement| candidates.counted(&measurement.outcome);
    tune(goal, found.knob, last, &mut |knob| {
        let measurement = in_full(candidates, family, &found.rungs, knob, record.clone())?;
        let measured = counted(&measurement);
        excess_at_first.get_or_insert(goal.excess(&measured));
        if best.as_ref().is_none_or(|(_, best)| goal.prefers(&measured, &counted(best))) {
            best = Some((knob, measurement));
        }
        Ok::<_, ArchiveError>(measured)
    })?;
    // Cannot be absent: tuning measures at least once.
    let ((knob, mut best), excess_at_first) =
        best.zip(excess_at_first).ok_or_else(|| ArchiveError::corrupt("nothing was measured"))?;
    // Finer steps may fit the values better.
    if family == Family::Residuals && goal.excess(&counted(&best)) <= 1.0 && matches!(goal, Goal::Nmae(_)) {
        for tighter in TIGHTER {
            let knob = knob - tighter.log2();
            let other = in_full(candidates, family, &found.rungs, knob, record.clone())?;
            let (bytes, before) = (counted(&other).bytes, counted(&best).bytes);
            if bytes < SAVES * before && goal.excess(&counted(&other)) <= 1.0 {
                best = other;
            } else if bytes > STEEP * before {
                break;
            }
        }
    }
    Ok(Finished { chosen: chosen(best, record), excess_at_first })
}

fn chosen(measurement: Measurement, tried: Vec<Tried>) -> Chosen {
    let Measurement { settings, outcome, .. } = measurement;
    Chosen { promise: Promise::new(&outcome), settings, outcome, tried }
}

/// Under a bound: the best choices in full, and their neighbours where values are few.
pub(super) fn finish_under_bound(
    candidates: &Candidates<'_>,
    space: &Space,
    found: &Found,
    record: &[Tried],
) -> Result<Chosen> {
    let (family, goal) = (space.family, Goal::Smallest);
    let record = worth_recording(goal, record, found.cost);
    let measure =
        |rungs: &[usize]| candidates.measure(family, rungs, found.knob, Effort::Full, record.clone());
    let bytes = |measurement: &Measurement| candidates.counted(&measurement.outcome).bytes;
    let (mut rungs, mut best) = (found.rungs.clone(), measure(&found.rungs)?);
    let try_other = |other: Vec<usize>, best: &mut Measurement, rungs: &mut Vec<usize>| -> Result<bool> {
        let measured = measure(&other)?;
        let better = bytes(&measured) < bytes(best);
        if better {
            (*best, *rungs) = (measured, other);
        }
        Ok(better)
    };
    let are_few = candidates.trials.are_few();
    let mut finalists: Vec<Vec<usize>> = Vec::new();
    for other in space.search.known(goal).into_iter().filter(|other| other.rungs != found.rungs) {
        // Without atoms nothing else matters, and nothing need be learned.
        let alike = |known: &Vec<usize>| !candidates.has_atoms(known) && !candidates.has_atoms(&other.rungs);
        let is_near = other.cost <= NEARLY_THE_BEST * found.cost;
        let affordable = are_few || !candidates.has_atoms(&other.rungs);
        if is_near && affordable && !alike(&rungs) && !finalists.iter().any(alike) {
            finalists.push(other.rungs);
        }
    }
    finalists.truncate(MOST_FINALISTS);
    for other in finalists {
        try_other(other, &mut best, &mut rungs)?;
    }
    if are_few && candidates.has_atoms(&rungs) {
        for axis in [ATOMS, LAMBDA, WEIGHTS] {
            for up in [true, false] {
                loop {
                    let next = if up { rungs[axis].checked_add(1) } else { rungs[axis].checked_sub(1) };
                    let last = space.search.ladders()[axis].rungs;
                    let Some(next) = next.filter(|next| *next < last) else { break };
                    let mut other = rungs.clone();
                    other[axis] = next;
                    if !try_other(other, &mut best, &mut rungs)? {
                        break;
                    }
                }
            }
        }
    }
    let best = tightened(candidates, best, candidates.atoms(&rungs), &record)?;
    let judged = candidates.judged(family, &rungs, found.knob, best)?;
    Ok(chosen(judged, record))
}

/// The same rounded to a tighter bound where that takes fewer bytes: finer steps may fit the values better.
fn tightened(
    candidates: &Candidates<'_>,
    mut best: Measurement,
    atoms: usize,
    record: &[Tried],
) -> Result<Measurement> {
    let bytes = |measurement: &Measurement| candidates.counted(&measurement.outcome).bytes;
    let bound = best.settings.bound;
    for share in TIGHTER {
        let rounding = match bound {
            Bound::MaxError(bound) => Bound::MaxError(share * bound),
            Bound::MaxRelativeError(bound) => Bound::MaxRelativeError(share * bound),
            Bound::None | Bound::Lossless => break,
        };
        let settings = super::data_file_writer::Settings { rounding, ..best.settings.clone() };
        let other = candidates.measure_with(settings, atoms, Effort::Full, record.to_vec())?;
        if bytes(&other) < SAVES * bytes(&best) {
            best = other;
        } else if bytes(&other) > STEEP * bytes(&best) {
            break;
        }
    }
    Ok(best)
}
