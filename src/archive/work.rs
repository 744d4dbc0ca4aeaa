//! From tables to data files, one after the other.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};

use super::block::{self, CodedBlock, Purpose};
use super::compress::rows_of;
use super::copied::{copy, unreadable};
use super::data_file::DataFile;
use super::data_file_writer::{DataFileWriter, Settings};
use super::dictionary_file::Description;
use super::drift::{Drift, Known, Taken, Watch};
use super::error_sums::ErrorSums;
use super::footer::Footer;
use super::hashes::{Hashes, hash_file};
use super::job::{Job, JobObserver, JobProgress, JobReport};
use super::layout::{Layout, Table};
use super::manifest::{DictionaryEntry, FileEntry, Manifest, hash_of};
use super::opened::{Archive, Generation};
use super::originals::{OfContent, local_hash};
use super::other_columns::other_columns;
use super::output::Output;
use super::own_rows;
use super::parquet_footer::{fetch_footer, indexed_length, parse_footer, with_index};
use super::placed::{Placed, block_rows, place_rows};
use super::placement::Placement;
use super::pool::compute;
use super::portrait::{Change, Portrait, Sums, Values};
use super::prepare::{self, Request};
use super::quantiser::Bound;
use super::site::{Site, Spot};
use super::source::{Source, read_ahead};
use super::verdict::worthwhile;
use super::{ArchiveError, Result};

/// The part of a job that turns files into data files.
pub(super) struct Work<'a> {
    pub site: &'a Site,
    /// The dictionary in use, and its number.
    pub generation: Generation,
    pub number: u32,
    /// The archive that files are added to.
    pub archive: Option<&'a Archive>,
    /// Dictionaries that were learned on the way.
    pub later: Vec<DictionaryEntry>,
    /// Data files that were written.
    pub written: Vec<Path>,
    /// The columns that all tables of an archive have.
    pub schema: &'a SchemaRef,
    pub group_sensors: usize,
    pub observer: &'a dyn JobObserver,
    pub progress: JobProgress,
    pub job: &'a Job,
}

impl Work<'_> {
    pub async fn run(
        &mut self,
        sources: &[Source],
        failed: Vec<(String, ArchiveError)>,
    ) -> Result<JobReport> {
        let failed = failed.into_iter().map(|(name, error)| (name, error.to_string())).collect();
        let mut report = JobReport { failed, ..JobReport::default() };
        self.portray(sources).await?;
        for (i, source) in sources.iter().enumerate() {
            if self.job.resume
                && let Some((entry, drift)) = self.finished(&sources[i..]).await?
            {
                let entry = known_by_content(entry, source).await;
                self.progress.rows += source.rows;
                report.resumed += 1;
                report.drift.extend(drift);
                report.files.push(entry);
                continue;
            }
            match self.file_or_retrained(&sources[i..]).await {
                Ok((entry, drift)) => {
                    report.files.push(known_by_content(entry, source).await);
                    if let Some(drift) = drift {
                        self.observer.on_drift(&drift);
                        report.drift.push(drift);
                    }
                }
                Err(error) if error.ends_a_job() => return Err(error),
                Err(error) => {
                    self.observer.on_failure(&source.input.name, &error);
                    report.failed.push((source.input.name.clone(), error.to_string()));
                }
            }
        }
        Ok(report)
    }

    /// Finds out what signals are like that the dictionary is for, where that is not known and something is to be compared
    /// with them: the archive's own rows tell, or the tables that an earlier run of this job has learned from.
    async fn portray(&mut self, sources: &[Source]) -> Result<()> {
        let Generation { codebook, description, portrait } = &self.generation;
        let signals = match description.layout {
            Layout::Long { .. } | Layout::Window { .. } => rows_of(sources) / codebook.sensors() as u64,
            _ => rows_of(sources),
        };
        // What a dictionary has been learned from is what it knows.
        let is_new = self.archive.is_none() && self.later.is_empty() && self.job.dictionary.is_none();
        if is_new && !self.job.retrain_on_drift {
            return Ok(());
        }
        let is_compared = description.promise.is_some() && description.kept.is_none();
        if portrait.is_some() || !is_compared || signals < FEWEST_COMPARED {
            return Ok(());
        }
        let portrait = match self.archive {
            Some(archive) if self.later.is_empty() => {
                own_rows::portrait(archive, &self.generation, self.number).await?
            }
            _ => self.portrait_of(sources).await?,
        };
        self.generation.portrait = portrait;
        Ok(())
    }

    /// What signals of these tables are like, one that cannot be read aside: it fails when its turn comes.
    async fn portrait_of(&self, sources: &[Source]) -> Result<Option<Arc<Portrait>>> {
        let (table, mut fitting) = self.fitting(sources)?;
        let is_given = self.job.dictionary.is_some() && self.later.is_empty();
        loop {
            match prepare::portrait(&table, &fitting, &self.request(), is_given).await {
                Err(ArchiveError::File { path, error }) if fitting.len() > 1 && !error.ends_a_job() => {
                    fitting.retain(|source| source.input.name != path);
                }
                Err(error) if !error.ends_a_job() => return Ok(None),
                other => return other,
            }
        }
    }

    /// Compresses the first of these files. Where it has drifted and that is asked for, it is compressed again with
    /// a dictionary learned from it and those after it.
    async fn file_or_retrained(&mut self, sources: &[Source]) -> Result<(FileEntry, Option<Drift>)> {
        let Some(source) = sources.first() else { return Err(ArchiveError::layout("there is no file")) };
        let spot = self.site.take(&source.input.name, &source.identity()).await?;
        let written = self.best_of(sources, source, &spot).await;
        self.site.release(&spot).await;
        if written.is_ok() {
            self.written.push(spot.path);
        }
        written
    }

    async fn best_of(
        &mut self,
        sources: &[Source],
        source: &Source,
        spot: &Spot,
    ) -> Result<(FileEntry, Option<Drift>)> {
        let coded = self.file(source, spot).await?;
        let Some(drift) = &coded.drift else { return coded.publish().await };
        if !self.job.retrain_on_drift {
            return coded.publish().await;
        }
        let next = match self.learned_from(sources).await {
            Ok(next) => next,
            Err(error) if error.ends_a_job() => {
                coded.discard().await?;
                return Err(error);
            }
            // The file is coded already, if not as well as it could be.
            Err(_) => return coded.publish().await,
        };
        // A dictionary that promises no more than the old one has left is of no use, unless it knows what signals are
        // like by now.
        let leaves_less = next.description.promise.is_some_and(|promise| promise.left < drift.left);
        if !leaves_less && (next.portrait.is_none() || drift.change == Change::Left) {
            return coded.publish().await;
        }
        let number = self.number + 1;
        let (before, bound) = (self.generation.description.bound, next.description.bound);
        let bound = (bound != before).then_some(bound);
        let drift = Drift { generation: Some(number), bound, ..drift.clone() };
        coded.discard().await?;
        let stored = prepare::store_dictionary(self.site, number, &next).await?;
        self.adopt(next, stored);
        self.progress.rows -= source.rows;
        let (entry, _) = self.file(source, spot).await?.publish().await?;
        Ok((entry, Some(drift)))
    }

    /// Learns a dictionary for these files, and goes on with it if it pays.
    pub async fn learn_next(&mut self, sources: &[Source]) -> Result<()> {
        let next = self.learned_from(sources).await?;
        if next.description.kept.is_none() {
            let stored = prepare::store_dictionary(self.site, self.number + 1, &next).await?;
            self.adopt(next, stored);
        }
        Ok(())
    }

    /// A dictionary for what this archive was made for, learned from these files.
    async fn learned_from(&self, sources: &[Source]) -> Result<Generation> {
        let (table, fitting) = self.fitting(sources)?;
        prepare::learn(&table, &fitting, &self.request(), self.group_sensors, self.observer).await
    }

    /// What this archive was made for.
    fn request(&self) -> Request {
        let description = &self.generation.description;
        let bound = if description.target.is_some() { Bound::None } else { description.bound };
        Request { bound, target: description.target, learn: description.learn.clone(), is_compared: true }
    }

    /// Those of these files that have the archive's columns.
    fn fitting<'s>(&self, sources: &'s [Source]) -> Result<(Table, Vec<&'s Source>)> {
        let layout = self.generation.description.layout.clone();
        let fits = |source: &&Source| source.schema.fields() == self.schema.fields();
        let table = Table::new(layout, self.schema.clone(), Vec::new())?;
        Ok((table, sources.iter().filter(fits).collect()))
    }

    /// Goes on with a later dictionary.
    fn adopt(&mut self, generation: Generation, stored: DictionaryEntry) {
        self.generation = generation;
        self.number += 1;
        self.later.push(stored);
    }

    /// A manifest could not be written, as far as is known: a store may have written it all the same, and have failed to
    /// say so. Gives the manifest if it names these files; else what was written is removed, where no other job can
    /// have found it.
    pub async fn unless_written(
        &self,
        store: &Arc<dyn ObjectStore>,
        folder: &Path,
        files: &[FileEntry],
        error: ArchiveError,
    ) -> Result<Manifest> {
        match Manifest::read(store.as_ref(), folder).await {
            Ok(Some(found)) if found.manifest.names_all(files) => return Ok(found.manifest),
            Ok(_) if !self.job.resume || self.site.is_staged() => self.site.withdraw(&self.written).await,
            // What is left otherwise is no part of an archive, and only takes space.
            _ => {}
        }
        Err(error)
    }

    fn settings(&self) -> Settings {
        let Generation { codebook, description, .. } = &self.generation;
        let (codebook, bound, rounding) = (codebook.clone(), description.bound, description.rounding());
        Settings { codebook, bound, rounding, group_sensors: self.group_sensors }
    }

    /// The entry of the data file of the first of these tables, if an earlier run has finished it.
    async fn finished(&mut self, sources: &[Source]) -> Result<Option<(FileEntry, Option<Drift>)>> {
        let Some(source) = sources.first() else { return Ok(None) };
        for spot in self.site.expected(&source.input.name, &source.identity())? {
            if let Some(finished) = self.finished_at(source, spot, sources).await? {
                return Ok(Some(finished));
            }
        }
        Ok(None)
    }

    async fn finished_at(
        &mut self,
        source: &Source,
        spot: Spot,
        sources: &[Source],
    ) -> Result<Option<(FileEntry, Option<Drift>)>> {
        let (store, path) = (&self.site.store, &spot.path);
        let length = match store.head(path).await {
            Ok(found) => found.size,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Whatever cannot be read is not finished.
        let Ok(mut footer) = fetch_footer(store.as_ref(), path, length).await else { return Ok(None) };
        if parse_footer(&footer, length).is_ok_and(|metadata| Footer::is_in(&metadata)) {
            let Ok(indexed) = with_index(store.as_ref(), path, length, footer).await else { return Ok(None) };
            footer = indexed;
        }
        let open = |generation: &Generation| {
            let series = &generation.description.series;
            DataFile::new(store.clone(), path.clone(), &footer, length, series, Some(&generation.codebook))
        };
        let file = match open(&self.generation) {
            Ok(file) => file,
            Err(_) => {
                // That run may have learned another dictionary from here on.
                let later = prepare::stored_dictionary(self.site, self.number + 1).await;
                let Ok(Some((later, stored))) = later else { return Ok(None) };
                let Ok(file) = open(&later) else { return Ok(None) };
                if file.coded.as_ref().is_none_or(|coded| coded.footer.source != source.identity()) {
                    return Ok(None);
                }
                self.adopt(later, stored);
                self.portray(sources).await?;
                file
            }
        };
        let is_of_source = match &file.coded {
            Some(coded) => coded.footer.source == source.identity(),
            None => footer == source.footer && length == source.bytes,
        };
        if !is_of_source {
            return Ok(None);
        }
        // A machine that went down may have lost what is in the middle of a file.
        let found = hash_file(store, path, Some(file.metadata.metadata())).await?;
        let Hashes { length, whole, chunks } = found;
        match &file.coded {
            Some(coded) => {
                let groups = &coded.footer.row_groups;
                if !groups.iter().map(|group| &group.hashes).eq(&chunks) {
                    return Ok(None);
                }
                let signals = groups.iter().map(|group| group.signals as u64).sum();
                let (error, left) = (coded.footer.error, coded.footer.left.map(|left| (left, signals)));
                let mut entry = self.entry(source, &spot, length, whole, &footer, error, left, None);
                entry.drift = coded.footer.drift.as_ref().map(|drift| drift.told.clone());
                Ok(Some((entry, coded.footer.drift.clone())))
            }
            None => {
                let original = hash_file(&source.input.store, &source.input.path, None).await;
                if original.map_err(unreadable)?.whole != whole {
                    return Ok(None);
                }
                let error = ErrorSums::default();
                let entry = self.entry(source, &spot, length, whole, &footer, error, None, Some(chunks));
                Ok(Some((entry, None)))
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are what an entry is made of")]
    fn entry(
        &self,
        source: &Source,
        spot: &Spot,
        bytes: u64,
        hash: String,
        footer: &[u8],
        error: ErrorSums,
        left: Option<(f64, u64)>,
        stored: Option<Vec<Vec<String>>>,
    ) -> FileEntry {
        let promise = self.generation.description.promise;
        FileEntry {
            path: source.input.name.clone(),
            file: spot.file.clone(),
            rows: source.rows,
            bytes,
            hash,
            footer_bytes: footer.len() as u64,
            footer: hash_of(footer),
            source_bytes: source.bytes,
            source: source.identity(),
            stored,
            generation: self.number,
            left: left.map(|(left, _)| left),
            left_limit: left.zip(promise).map(|((_, signals), promise)| {
                promise.allowed(signals, self.generation.is_told_by_portrait())
            }),
            drift: None,
            error,
        }
    }

    /// Compresses one file; it is stored as it was if that is not larger, or if a dictionary does not pay.
    async fn file(&mut self, source: &Source, spot: &Spot) -> Result<Coded> {
        let Description { layout, series, kept, .. } = &self.generation.description;
        let kept = kept.is_some();
        let table = Table::new(layout.clone(), source.schema.clone(), series.clone())?;
        if source.schema.fields() != self.schema.fields() {
            return Err(ArchiveError::layout(other_columns(&source.schema, self.schema)));
        }
        super::int96::check(&source.input, &source.metadata).await?;
        super::intervals::check(&source.input, &source.metadata, &source.schema).await?;
        if kept && source.rows > 0 {
            source.read_through(|| self.observer.is_cancelled()).await?;
            self.progress.rows += source.rows;
            return self.store_as_it_was(source, spot).await;
        }
        let upload = self.site.store.put_multipart(&spot.path).await?;
        let mut output = Output::new(WriteMultipart::new(upload));
        let (mut watch, mut signals) = (Watch::default(), 0);
        match self.blocks(source, &table, &mut output, &mut watch, &mut signals).await {
            Ok((footer, error, drift)) if output.length <= worthwhile(source.bytes) || source.rows == 0 => {
                let (length, hash) = (output.length, output.hash());
                let left = Some((watch.left().share(), signals));
                let mut entry = self.entry(source, spot, length, hash, &footer, error, left, None);
                entry.drift = drift.as_ref().map(|drift| drift.told.clone());
                Ok(Coded { entry, drift, upload: output.upload })
            }
            Ok(_) => {
                output.upload.abort().await?;
                self.store_as_it_was(source, spot).await
            }
            Err(error) => {
                // What went wrong first is what matters.
                let _ = output.upload.abort().await;
                Err(error)
            }
        }
    }

    /// Codes a file block by block, some of them at a time. Gives the footer's bytes, and whether the file has drifted.
    async fn blocks(
        &mut self,
        source: &Source,
        table: &Table,
        output: &mut Output,
        watch: &mut Watch,
        signals: &mut u64,
    ) -> Result<(Bytes, ErrorSums, Option<Drift>)> {
        let settings = self.settings();
        let sensors = settings.codebook.sensors();
        if let Some(fixed) = table.fixed_sensors().filter(|fixed| *fixed != sensors) {
            return Err(ArchiveError::layout(format!("{fixed} sensors, but the dictionary has {sensors}")));
        }
        // Where similarities are too large, residuals do all of the work; without a bound trials have failed before.
        let _ = settings.codebook.prepare_for_parallel_use();
        let rows = block_rows(table, sensors);
        let original = source.metadata.file_metadata().schema_descr();
        let mut writer: Option<DataFileWriter> = None;
        let new_writer = |first: Option<&RecordBatch>| {
            DataFileWriter::new(table, &settings, source.identity(), first, Some(original))
        };
        let threads = self.job.threads.max(1);
        let blocks = read_ahead(
            source.blocks(table.list_column(), source.all_rows(), rows, table.rows_of_signal()).await?,
        );
        let portrait = self.generation.portrait.clone();
        let coded = blocks.map(|block| {
            let (table, settings, portrait) = (table.clone(), settings.clone(), portrait.clone());
            async move {
                let block = block?;
                compute("coding a block", move || code_rows(&table, &settings, portrait.as_deref(), block))
                    .await
            }
        });
        // One more than there are threads: while a block is written the others are coded.
        let mut coded = std::pin::pin!(coded.buffered(threads + 1));
        let mut done = 0;
        while let Some(block) = coded.next().await {
            if self.observer.is_cancelled() {
                return Err(ArchiveError::Cancelled);
            }
            for (rows, placement, block, mut seen) in block.map_err(|error| in_file(error, done))? {
                let writer = match &mut writer {
                    Some(writer) => writer,
                    none => none.insert(new_writer(Some(&rows))?),
                };
                output.write(writer.write(&rows, &placement, &block)?).await?;
                *signals += placement.signals() as u64;
                for (chunk, left) in block.left.iter().enumerate() {
                    let row = placement.first_rows.get(chunk * block::CHUNK).copied().unwrap_or(0);
                    let sums = seen.get_mut(chunk).and_then(Option::take);
                    watch.add(left, sums, done + row as u64, time_of(table, &rows, row));
                }
                done += rows.num_rows() as u64;
                self.progress.rows += rows.num_rows() as u64;
                self.progress.bytes_in += 8 * block.error.values;
                self.progress.bytes_out += output.length - output.reported;
                output.reported = output.length;
            }
            self.observer.on_progress(&self.progress);
        }
        source.check_rows(done)?;
        let mut writer = match writer {
            Some(writer) => writer,
            None => new_writer(None)?,
        };
        let taken = Taken { bytes: writer.coded_bytes(), values: writer.values() };
        let drift = self.generation.description.promise.and_then(|promise| {
            let is_told_by_portrait = self.generation.is_told_by_portrait();
            let known =
                Known { table, promise: &promise, portrait: portrait.as_deref(), is_told_by_portrait };
            watch.drift(&source.input.name, *signals, taken, &known)
        });
        drift.iter().for_each(|drift| writer.tell(drift));
        let (end, error) = writer.finish()?;
        output.write(end.clone()).await?;
        let start = (end.len() as u64).checked_sub(indexed_length(&end, output.length)?);
        let start = start.ok_or_else(|| ArchiveError::corrupt("no footer was written"))?;
        Ok((Bytes::from(end).slice(start as usize..), error, drift))
    }

    async fn store_as_it_was(&self, source: &Source, spot: &Spot) -> Result<Coded> {
        let mut output = Output::new(WriteMultipart::new(self.site.store.put_multipart(&spot.path).await?));
        let Hashes { length, whole, chunks } = match copy(source, &mut output).await {
            Ok(hashes) => hashes,
            Err(error) => {
                let _ = output.upload.abort().await;
                return Err(error);
            }
        };
        let (footer, error) = (&source.footer, ErrorSums::default());
        let entry = self.entry(source, spot, length, whole, footer, error, None, Some(chunks));
        Ok(Coded { entry, drift: None, upload: output.upload })
    }
}

/// The entry with what its source is known by, where that is cheap to find out.
async fn known_by_content(mut entry: FileEntry, source: &Source) -> FileEntry {
    let content = match &entry.stored {
        Some(_) => Some(entry.hash.clone()),
        // It was read already. Where that cannot be done once more its footer is what it is known by.
        None => local_hash(&source.input).await.unwrap_or(None),
    };
    if let Some(content) = content {
        entry.source = OfContent(content).to_string();
    }
    entry
}

/// A data file that is written, but not there yet.
struct Coded {
    entry: FileEntry,
    drift: Option<Drift>,
    upload: WriteMultipart,
}

impl Coded {
    /// Now it is there, and will not be changed any more: others may have found it.
    async fn publish(self) -> Result<(FileEntry, Option<Drift>)> {
        self.upload.finish().await?;
        Ok((self.entry, self.drift))
    }

    async fn discard(self) -> Result<()> {
        Ok(self.upload.abort().await?)
    }
}

/// The time of a row, where the table has a column of times.
fn time_of(table: &Table, rows: &RecordBatch, row: usize) -> Option<String> {
    let named = if let Layout::Long { time, .. } = &table.layout { Some(time.as_str()) } else { None };
    let is_time = |column: &&usize| {
        let field = table.schema.field(**column);
        named.map_or(field.data_type().is_temporal(), |name| field.name() == name)
    };
    let column = rows.column(*table.kept.iter().find(is_time)?);
    array_value_to_string(column, row).ok()
}

/// A row group: its rows, where their signals are, their codes, and what some of its chunks of signals are like.
type CodedRows = (RecordBatch, Placement, CodedBlock, Vec<Option<Sums>>);

/// Fewer signals tell nothing: to add them the archive's own are not read.
const FEWEST_COMPARED: u64 = 4;
/// Cells of a block that are compared with what was learned from.
const COMPARED_CELLS: usize = 1 << 18;

/// What chunks of a block's signals are like: of all, or of some that are evenly spread.
fn seen(
    table: &Table,
    settings: &Settings,
    portrait: &Portrait,
    (placed, block): (&Placed, &CodedBlock),
) -> Result<Vec<Option<Sums>>> {
    let decoded;
    let cells = match portrait.values {
        Values::Decoded if settings.bound != Bound::Lossless => {
            decoded = placed.decode(table, settings, block)?;
            &decoded
        }
        _ => &placed.cells,
    };
    let (signals, groups) = (cells.signals(), table.groups(cells.sensors, usize::MAX));
    let stride = cells.state.len().div_ceil(COMPARED_CELLS).max(1);
    let look = |chunk: usize| {
        let first = chunk * block::CHUNK;
        let is_compared = chunk % stride == stride / 2;
        is_compared.then(|| portrait.look(cells, &groups, first..(first + block::CHUNK).min(signals)))?
    };
    Ok((0..signals.div_ceil(block::CHUNK)).map(look).collect())
}

fn code_rows(
    table: &Table,
    settings: &Settings,
    portrait: Option<&Portrait>,
    rows: RecordBatch,
) -> Result<Vec<CodedRows>> {
    let mut coded = Vec::new();
    let _whole = place_rows(table, settings.codebook.sensors(), rows, &mut |placed| {
        let block = placed.encode(table, settings, Purpose::Publish)?;
        let seen = match portrait {
            Some(portrait) => seen(table, settings, portrait, (&placed, &block))?,
            None => Vec::new(),
        };
        coded.push((placed.rows, placed.placement, block, seen));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(coded)
}

/// Numbers rows from the beginning of the file.
fn in_file(error: ArchiveError, first: u64) -> ArchiveError {
    match error {
        ArchiveError::Ragged { column, row, expected, found } => {
            ArchiveError::Ragged { column, row: first + row, expected, found }
        }
        other => other,
    }
}
