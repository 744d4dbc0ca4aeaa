//! What must be known before files can be coded: a dictionary, a bound, and whether it pays.

use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStoreExt;

use super::choose::{Chooser, Chosen, Target};
use super::codebook::Codebook;
use super::data_file_writer::Settings;
use super::dictionary_file::{self, Description};
use super::drift::Promise;
use super::layout::{Layout, Table};
use super::learn::{LearnSettings, Material, given};
use super::manifest::{DictionaryEntry, hash_of};
use super::opened::Generation;
use super::portrait::Portrait;
use super::quantiser::Bound;
use super::sampled::{Look, Sampled, look_at};
use super::site::Site;
use super::source::Source;
use super::trial::{Effort, Trials};
use super::verdict::worthwhile;
use super::{ArchiveError, Result};
use crate::math::{Dictionary, Observer};

/// What a dictionary is learned for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub bound: Bound,
    pub target: Option<Target>,
    pub learn: LearnSettings,
    /// Whether tables will be compared with what was learned from.
    pub is_compared: bool,
}

impl Request {
    /// How much of tables is looked at.
    fn look(&self) -> Look {
        if self.bound == Bound::None { Look::Thorough } else { Look::Glance }
    }
}

/// Sensors that atoms are learned for at most. Of longer signals dictionaries would fill the memory, since many are tried.
const MOST_LEARNED_SENSORS: usize = 1 << 17;

/// What is set about learning, and what is too much of it for signals of so many sensors.
pub(super) fn settings_for(learn: &LearnSettings, sensors: usize) -> LearnSettings {
    let atoms = learn.atoms.or((sensors > MOST_LEARNED_SENSORS).then_some(0));
    LearnSettings { atoms, ..learn.clone() }
}

/// Learns a dictionary from tables, with all that is not set chosen.
pub(super) async fn learn(
    table: &Table,
    sources: &[&Source],
    request: &Request,
    group_sensors: usize,
    observer: &dyn Observer,
) -> Result<Generation> {
    let sampled = look_at(table, sources, 1.0, request.look()).await?;
    let material = material(table, sources, &sampled)?;
    let trials = Trials::new(&material, &sampled);
    let settings = settings_for(&request.learn, material.sensors);
    // A bound or a target is kept whatever a dictionary is worth; without them there is nothing but codes.
    let kept = match (request.bound, request.target) {
        (Bound::None, None) if settings != request.learn => Some(format!(
            "signals of {} values are too long to learn a dictionary from (at most {MOST_LEARNED_SENSORS})",
            material.sensors
        )),
        (Bound::None, None) => {
            let held_out = Trials::on_held_out(&material, &sampled);
            let learned_from = Trials::on_learned(&material, &sampled);
            Chooser::new(&material, &held_out, &request.learn, group_sensors, observer)
                .verdict(&learned_from)?
        }
        _ => None,
    };
    drop(sampled);
    let mut chooser = Chooser::new(&material, &trials, &settings, group_sensors, observer);
    let chosen = match (&kept, request.target) {
        (Some(_), _) => None,
        (None, Some(target)) => Some(chooser.for_target(target)?),
        (None, None) => Some(chooser.for_bound(request.bound)?),
    };
    let insisted = request.learn.atoms.is_some();
    let small = |chosen: &Chosen| chosen.outcome.bytes <= worthwhile(trials.source_bytes) as f64;
    let (chosen, kept) = match chosen {
        Some(chosen) if insisted || small(&chosen) => (Some(chosen), None),
        Some(chosen) => {
            let (found, would) = (trials.source_bytes, chosen.outcome.bytes);
            let told = format!("the archive would take {would:.0} bytes, and the files have {found}");
            (None, Some(format!("{told}; a twentieth should be saved")))
        }
        None => (None, kept),
    };
    let (settings, promise, search) = match chosen {
        Some(chosen) => (chosen.settings, chosen.promise, chosen.tried),
        None => {
            let (codebook, bound) = (Arc::new(material.without_atoms(request.bound, false)?), request.bound);
            (Settings { codebook, bound, rounding: bound, group_sensors }, None, Vec::new())
        }
    };
    let Settings { codebook, bound, rounding, .. } = settings;
    let series = material.table.series.clone();
    let signals = material.all_signals() as u64;
    let mut description = Description::new(&codebook, table.layout.clone(), series, bound, signals);
    description.rounding = (rounding != bound).then_some(rounding);
    description.target = request.target;
    description.learn = request.learn.clone();
    description.promise = promise;
    let is_drawn = request.is_compared && kept.is_none();
    let portrait = if is_drawn { material.portrait() } else { None };
    description.kept = kept;
    description.search = search;
    Ok(Generation { codebook, description, portrait })
}

/// What can be learned from what was looked at of these tables. What is wrong with a single one is told with its name.
fn material(table: &Table, sources: &[&Source], sampled: &Sampled) -> Result<Material> {
    Material::new(table, sampled).map_err(|error| match sources {
        [source] if !error.ends_a_job() => error.at(&source.input.name),
        _ => error,
    })
}

/// Takes over a dictionary that was given; what it promises is seen on the first table.
pub(super) async fn take_over(
    table: &Table,
    sources: &[&Source],
    dictionary: &Dictionary,
    request: &Request,
    group_sensors: usize,
) -> Result<Generation> {
    if matches!(table.layout, Layout::Long { .. }) {
        return Err(ArchiveError::layout(
            "a dictionary does not know which series its sensors are; leave --dictionary out with --long",
        ));
    }
    if request.target.is_some() {
        return Err(ArchiveError::layout(
            "a target is what a dictionary is chosen for; leave --dictionary out",
        ));
    }
    let codebook = Arc::new(given(dictionary, request.bound)?);
    let mut description = Description::new(&codebook, table.layout.clone(), Vec::new(), request.bound, 0);
    let (material, sampled) = of_first(table, sources).await?;
    let mut portrait = None;
    if material.sensors == codebook.sensors() && !sampled.blocks.is_empty() {
        let trials = Trials::new(&material, &sampled);
        let (bound, rounding) = (request.bound, request.bound);
        let settings = Settings { codebook: codebook.clone(), bound, rounding, group_sensors };
        let outcome = trials.run(&settings, 0, Effort::Full, true)?;
        description.promise = Promise::new(&outcome);
        portrait = material.portrait();
    }
    Ok(Generation { codebook, description, portrait })
}

/// What is looked at where a dictionary is given.
async fn of_first(table: &Table, sources: &[&Source]) -> Result<(Material, Sampled)> {
    let first = &sources[..sources.len().min(1)];
    let mut sampled = look_at(table, first, 1.0, Look::Thorough).await?;
    sampled.learned.clear();
    Ok((material(table, first, &sampled)?, sampled))
}

/// What signals were like when an earlier run of the same job has learned from these tables, or has taken a dictionary
/// over for them.
pub(super) async fn portrait(
    table: &Table,
    sources: &[&Source],
    request: &Request,
    is_given: bool,
) -> Result<Option<Arc<Portrait>>> {
    if is_given {
        return Ok(of_first(table, sources).await?.0.portrait());
    }
    let sampled = look_at(table, sources, 1.0, request.look()).await?;
    Ok(material(table, sources, &sampled)?.portrait())
}

/// Writes a dictionary's file.
pub(super) async fn store_dictionary(
    site: &Site,
    number: u32,
    generation: &Generation,
) -> Result<DictionaryEntry> {
    let bytes: Bytes = dictionary_file::write(&generation.codebook, &generation.description)?.into();
    // Everything will be decoded with what is read of it.
    if dictionary_file::read(bytes.clone())?.0.bytes() != generation.codebook.bytes() {
        return Err(ArchiveError::corrupt("a dictionary does not come back as it was written"));
    }
    let spot = site.put_dictionary(&dictionary_file::file_name(number), bytes.clone()).await?;
    Ok(entry_of(&bytes, spot.file))
}

/// Reads a dictionary's file that an earlier run has written, if it is there.
pub(super) async fn stored_dictionary(
    site: &Site,
    number: u32,
) -> Result<Option<(Generation, DictionaryEntry)>> {
    let spot = site.dictionary(&dictionary_file::file_name(number))?;
    let bytes = match site.store.get(&spot.path).await {
        Ok(found) => found.bytes().await?,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (codebook, description): (Codebook, Description) = dictionary_file::read(bytes.clone())?;
    let generation = Generation { codebook: Arc::new(codebook), description, portrait: None };
    Ok(Some((generation, entry_of(&bytes, spot.file))))
}

fn entry_of(bytes: &Bytes, file: Option<String>) -> DictionaryEntry {
    DictionaryEntry { bytes: bytes.len() as u64, hash: hash_of(bytes), file }
}
