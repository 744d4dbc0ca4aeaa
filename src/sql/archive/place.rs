//! Where a table's archive is, and what is known of it.

use std::sync::{Arc, RwLock};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;

use super::external;
use super::opened::Opened;
use super::options::Asked;
use crate::archive::{Archive, ArchiveError};

/// Where an archive is, what the table promises of it, and what is known of it.
#[derive(Debug)]
pub(super) struct Place {
    pub store: Arc<dyn ObjectStore>,
    pub folder: Path,
    pub asked: Asked,
    /// The table's columns; they stay, whatever becomes of the archive.
    pub schema: SchemaRef,
    /// `None` before the first row is inserted.
    opened: RwLock<Option<Arc<Opened>>>,
    /// Held while rows are inserted.
    pub inserting: Arc<tokio::sync::Mutex<()>>,
}

impl Place {
    /// Opens an archive, or prepares for one with these columns where there is none.
    pub async fn open(
        store: Arc<dyn ObjectStore>,
        folder: Path,
        schema: SchemaRef,
        asked: Asked,
    ) -> Result<Self> {
        let columns = (!schema.fields().is_empty()).then_some(&schema);
        let opened = match Archive::open(store.clone(), folder.clone()).await {
            Ok(archive) => Some(asked.opened(archive, columns, None).await?),
            Err(ArchiveError::NotAnArchive(_)) if columns.is_some() => {
                asked.job.layout.check(&schema).map_err(external)?;
                None
            }
            Err(error) => return Err(external(error)),
        };
        let schema = opened.as_ref().map_or(schema, |opened| opened.schema.clone());
        Ok(Self::new(store, folder, schema, asked, opened))
    }

    /// The place of an archive that is open.
    pub async fn of(archive: Archive) -> Result<Self> {
        let (store, folder, asked) = (archive.store().clone(), archive.folder().clone(), Asked::default());
        let opened = asked.opened(archive, None, None).await?;
        let schema = opened.schema.clone();
        Ok(Self::new(store, folder, schema, asked, Some(opened)))
    }

    fn new(
        store: Arc<dyn ObjectStore>,
        folder: Path,
        schema: SchemaRef,
        asked: Asked,
        opened: Option<Arc<Opened>>,
    ) -> Self {
        let (opened, inserting) = (RwLock::new(opened), Arc::default());
        Self { store, folder, asked, schema, opened, inserting }
    }

    /// What was found when it was last looked at.
    pub fn known(&self) -> Result<Option<Arc<Opened>>> {
        Ok(self
            .opened
            .read()
            .map_err(|_| exec_datafusion_err!("a query on this table has panicked"))?
            .clone())
    }

    /// The archive as it is now: others may have begun it, added to it, or replaced it. It is read again, and of its
    /// files those that are new; whoever goes on with it, to read or to insert, knows that it is what the table says.
    pub async fn current(&self) -> Result<Option<Arc<Opened>>> {
        let known = self.known()?;
        let archive = match &known {
            Some(known) => match known.archive.changed().await.map_err(external)? {
                Some(archive) => archive,
                None => return Ok(Some(known.clone())),
            },
            None => match Archive::open(self.store.clone(), self.folder.clone()).await {
                Ok(archive) => archive,
                Err(ArchiveError::NotAnArchive(_)) => return Ok(None),
                Err(error) => return Err(external(error)),
            },
        };
        let opened = self.asked.opened(archive, Some(&self.schema), known.as_deref()).await?;
        *self.opened.write().map_err(|_| exec_datafusion_err!("a query on this table has panicked"))? =
            Some(opened.clone());
        Ok(Some(opened))
    }
}

impl Asked {
    /// An archive whose footers are read, and which is what was asked for.
    async fn opened(
        &self,
        archive: Archive,
        columns: Option<&SchemaRef>,
        known: Option<&Opened>,
    ) -> Result<Arc<Opened>> {
        let opened = Opened::new(archive, columns, known).await?;
        self.check(&opened.archive, &opened.columns)?;
        Ok(Arc::new(opened))
    }
}
