//! Files, folders and archives as tables: `FROM 'x.parquet'`, `FROM 'folder/'`, `FROM 'archive/'`.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;

use crate::archive::{Archive, ArchiveError};
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
        match self.archive(name).await? {
            Some(table) => Ok(Some(table)),
            None => self.listing.try_new(name).await,
        }
    }
}

impl FileTables {
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
