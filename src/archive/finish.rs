//! From what was measured roughly to what is kept: the best choices are learned and measured in full.

use super::candidates::{ATOMS, Candidates, Depth, Family, LAMBDA, Measurement, WEIGHTS, WIDTH};
use super::choose::{Chosen, Tried};
use super::drift::Promise;
use super::quantiser::Bound;
use super::space::Space;
use super::trial::Effort;
use super::{ArchiveError, Result};
use crate::math::search::{Found, Goal, Measured, Search, tune};

/// Choices of a search that are recorded at most, each in about so many bytes, and the part of an archive that they may
/// take.
const MOST_RECORDED: usize = 16;
const RECORDED_BYTES: f64 = 20.0;
const OF_ARCHIVE: f64 = 0.005;
/// Choices that are this close to each other roughly may turn out the other way round in full: so many are tried,
const NEARLY_THE_BEST: f64 = 1.06;
const MOST_FINALISTS: usize = 6;
/// while no more values than these are coded. Dictionaries of the same settings differ by more than a few percent, so that
/// those of small tables, which cost nothing, are tried in some number.
const CODED_IN_THE_END: usize = 1 << 23;
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
    let way = (family, candidates.learned_in_full());
    let full = in_full(candidates, way, &found.rungs, found.knob, Vec::new())?;
    Ok(rough_goal.eased(found.excess / goal.excess(&candidates.counted(&full.outcome))))
}

fn in_full(
    candidates: &Candidates<'_>,
    (family, learned): (Family, Depth),
    rungs: &[usize],
    knob: f64,
    record: Vec<Tried>,
) -> Result<Measurement> {
    let measurement = candidates.measure_learned(family, rungs, knob, learned, Effort::Full, record)?;
    candidates.judged(family, rungs, knob, learned, measurement)
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
            let way = (family, &other, candidates.learned_in_full());
            let other = finish(candidates, goal, way, record)?.chosen;
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
    (family, found, learned): (Family, &Found, Depth),
    record: &[Tried],
) -> Result<Finished> {
    let bytes = if let Goal::Bytes(limit) = goal { limit } else { found.cost };
    let record = worth_recording(goal, record, bytes);
    let (mut best, mut excess_at_first): (Option<(f64, Measurement)>, _) = (None, None);
    let last = (candidates.positions(family) - 1) as f64;
    let counted = |measurement: &Measurement| candidates.counted(&measurement.outcome);
    let in_full = |knob: f64| in_full(candidates, (family, learned), &found.rungs, knob, record.clone());
    tune(goal, found.knob, last, &mut |knob| {
        let measurement = in_full(knob)?;
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
            let other = in_full(knob)?;
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

/// Under a bound: the best choices in full, and their neighbours, as many as the table's size allows.
pub(super) fn finish_under_bound(
    candidates: &Candidates<'_>,
    space: &Space,
    found: &Found,
    record: &[Tried],
) -> Result<Chosen> {
    let record = worth_recording(Goal::Smallest, record, found.cost);
    let Best { rungs, learned, measurement } = best_under_bound(candidates, space, found, &record)?;
    let best = tightened(candidates, measurement, candidates.atoms(&rungs), &record)?;
    let judged = candidates.judged(space.family, &rungs, found.knob, learned, best)?;
    Ok(chosen(judged, record))
}

/// What takes the fewest bytes under a bound.
pub(super) struct Best {
    pub rungs: Vec<usize>,
    /// How well its dictionary is learned.
    pub learned: Depth,
    pub measurement: Measurement,
}

/// The best choices in full, and their neighbours, as many as the table's size allows.
pub(super) fn best_under_bound(
    candidates: &Candidates<'_>,
    space: &Space,
    found: &Found,
    record: &[Tried],
) -> Result<Best> {
    let thorough = candidates.learned_in_full();
    let measurement = in_the_end(candidates, space.family, &found.rungs, thorough, record)?;
    let mut finals = Finals {
        candidates,
        family: space.family,
        record,
        left: CODED_IN_THE_END / candidates.trials.values().max(1),
        best: Best { rungs: found.rungs.clone(), learned: thorough, measurement },
    };
    // More learning does not always lead to fewer bytes.
    finals.try_other(found.rungs.clone(), Candidates::LEARNED_ROUGHLY)?;
    for other in finalists(candidates, &space.search.known(Goal::Smallest), found) {
        finals.try_other(other, thorough)?;
    }
    finals.climb(&space.search)?;
    Ok(finals.best)
}

/// What is measured under a bound in full.
fn in_the_end(
    candidates: &Candidates<'_>,
    family: Family,
    rungs: &[usize],
    learned: Depth,
    record: &[Tried],
) -> Result<Measurement> {
    candidates.measure_learned(family, rungs, 0.0, learned, Effort::Full, record.to_vec())
}

/// Other choices that were nearly as good as the best, the best of them first; no atoms at all count as one of them.
fn finalists(candidates: &Candidates<'_>, known: &[Found], found: &Found) -> Vec<Vec<usize>> {
    let is_near = |other: &&Found| other.rungs != found.rungs && other.cost <= NEARLY_THE_BEST * found.cost;
    let near: Vec<&Found> = known.iter().filter(is_near).collect();
    let (with_atoms, without): (Vec<&Found>, Vec<&Found>) =
        near.into_iter().partition(|other| candidates.has_atoms(&other.rungs));
    let without = without.into_iter().take(usize::from(candidates.has_atoms(&found.rungs)));
    with_atoms.into_iter().take(MOST_FINALISTS).chain(without).map(|other| other.rungs.clone()).collect()
}

/// The best choice so far, and how many more can be afforded.
struct Finals<'a> {
    candidates: &'a Candidates<'a>,
    family: Family,
    record: &'a [Tried],
    left: usize,
    best: Best,
}

impl Finals<'_> {
    fn try_other(&mut self, rungs: Vec<usize>, learned: Depth) -> Result<bool> {
        if self.left == 0 && self.candidates.has_atoms(&rungs) {
            return Ok(false);
        }
        self.left = self.left.saturating_sub(1);
        let measurement = in_the_end(self.candidates, self.family, &rungs, learned, self.record)?;
        let bytes = |measurement: &Measurement| self.candidates.counted(&measurement.outcome).bytes;
        let better = bytes(&measurement) < bytes(&self.best.measurement);
        if better {
            self.best = Best { rungs, learned, measurement };
        }
        Ok(better)
    }

    /// Rough measurements do not tell neighbours apart.
    fn climb(&mut self, search: &Search) -> Result<()> {
        for axis in [ATOMS, LAMBDA, WEIGHTS, WIDTH] {
            for up in [true, false] {
                while self.candidates.has_atoms(&self.best.rungs) {
                    let rung = self.best.rungs[axis];
                    let next = if up { rung.checked_add(1) } else { rung.checked_sub(1) };
                    let Some(next) = next.filter(|next| *next < search.ladders()[axis].rungs) else { break };
                    let mut other = self.best.rungs.clone();
                    other[axis] = next;
                    if !self.try_other(other, self.best.learned)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
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
        let other = candidates.measure_with(settings, atoms, (Effort::Full, false), record.to_vec())?;
        if bytes(&other) < SAVES * bytes(&best) {
            best = other;
        } else if bytes(&other) > STEEP * bytes(&best) {
            break;
        }
    }
    Ok(best)
}
