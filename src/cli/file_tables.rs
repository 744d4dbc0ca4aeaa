//! Files, folders and archives as tables: `FROM 'x.parquet'`, `FROM 'folder/'`, `FROM 'archive/'`.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::listing::{ListingTableConfig, ListingTableConfigExt, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use futures::FutureExt;

use crate::archive::{Archive, ArchiveError, panic_text};
use crate::sql::ArchiveTable;

/// Makes tables of what names stand for.
#[derive(Debug, Default)]
struct FileTables {
    /// What DataFusion makes of files and of folders of them.
    listing: DynamicListTableFactory,
}

/// Lets queries of a session name files, folders and archives.
pub(super) fn with_file_tables(session: SessionContext) -> SessionContext {
    let factory = Arc::new(FileTables::default());
    let known = Arc::clone(session.state_ref().read().catalog_list());
    let catalogs = Arc::new(DynamicFileCatalog::new(known, Arc::clone(&factory) as Arc<dyn UrlTableFactory>));
    let id = session.session_id();
    let state = session.into_state_builder().with_session_id(id).with_catalog_list(catalogs);
    let session: SessionContext = state.build().into();
    factory.listing.session_store().with_state(session.state_weak_ref());
    session
}

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        // A bare word is a table's name: `CREATE TABLE traffic` must not find a folder that is called so.
        if !name.contains(['/', '.', ':', '\\']) {
            return Ok(None);
        }
        if let Some(table) = self.archive(name).await? {
            return Ok(Some(table));
        }
        // Parquet's readers panic over types of other programs.
        let listed = AssertUnwindSafe(self.listing.try_new(name)).catch_unwind().await;
        match listed {
            Ok(Ok(Some(table))) if table.schema().fields().is_empty() => {
                Err(unreadable(name, "there are no bytes in it"))
            }
            Ok(Ok(Some(table))) => Ok(Some(table)),
            Ok(Ok(None)) => self.why_not(name).await,
            Ok(Err(error)) => Err(unreadable(name, error.strip_backtrace())),
            Err(panic) => Err(unreadable(name, panic_text(panic.as_ref()))),
        }
    }
}

fn unreadable(name: &str, why: impl Display) -> DataFusionError {
    plan_datafusion_err!("'{name}' cannot be read as a table: {why}")
}

impl FileTables {
    /// What keeps a file, or a folder, from being a table; nothing where there is none.
    async fn why_not(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let session = self.listing.session_store().get_session().upgrade();
        let state =
            session.and_then(|session| session.read().as_any().downcast_ref::<SessionState>().cloned());
        let (Some(state), Ok(url)) = (state, ListingTableUrl::parse(name)) else { return Ok(None) };
        match ListingTableConfig::new(url).infer_options(&state).await {
            // No file has the name, or is in the folder.
            Ok(_) | Err(DataFusionError::Internal(_)) if !Path::new(name).exists() => Ok(None),
            Ok(_) | Err(DataFusionError::Internal(_)) => {
                Err(unreadable(name, "there is no file in it whose name does not begin with . or _"))
            }
            Err(error) => Err(unreadable(name, error.strip_backtrace())),
        }
    }

    /// The archive in a folder, if there is one.
    async fn archive(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let folder = if name.ends_with('/') { name.to_string() } else { format!("{name}/") };
        // A pattern stands for files, those of an archive, too.
        let url = ListingTableUrl::parse(&folder).ok().filter(|url| url.get_glob().is_none());
        let may_be_folder = |url: &ListingTableUrl| match url.scheme() {
            "file" => Path::new("/").join(url.prefix().as_ref()).is_dir() || Path::new(name).is_dir(),
            _ => name.ends_with('/') || url.prefix().extension().is_none(),
        };
        let Some(url) = url.filter(may_be_folder) else { return Ok(None) };
        let session = self.listing.session_store().get_session().upgrade();
        let runtime = session.map(|session| Arc::clone(session.read().runtime_env()));
        let runtime = runtime.ok_or_else(|| plan_datafusion_err!("the session has ended"))?;
        let Ok(store) = runtime.object_store(&url) else { return Ok(None) };
        match Archive::open(store, url.prefix().clone()).await {
            Ok(archive) => Ok(Some(Arc::new(ArchiveTable::new(archive).await?))),
            Err(ArchiveError::NotAnArchive(_)) => Ok(None),
            Err(error) => Err(DataFusionError::External(Box::new(error.at(name)))),
        }
    }
}
