//! Places by path or URL: local files, and object stores, which are opened as they are met.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use datafusion::common::{DataFusionError, exec_datafusion_err};
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;
use url::{Position, Url};

use super::regular_files::RegularFiles;

/// Where something is.
pub(super) enum Place {
    Local(PathBuf),
    Stored(Stored),
}

/// A place in an object store.
pub(super) struct Stored {
    pub store: Arc<dyn ObjectStore>,
    pub path: Path,
    /// Whether it can be listed: web servers cannot.
    pub listed: bool,
}

impl Place {
    /// From a path, a `file://` URL, or the URL of an object store, in which `%` stands for an encoded byte.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            bail!("a path or URL is expected, and it is empty");
        }
        let (scheme, rest) = match text.split_once("://") {
            None => return Ok(Self::Local(PathBuf::from(text))),
            Some(("file", path)) => return Ok(Self::Local(PathBuf::from(path))),
            Some(parts) => parts,
        };
        let listed = !["http", "https"].contains(&scheme);
        if !listed && rest.contains(['?', '#']) {
            bail!("{text}: files of web servers are read without ? and #");
        }
        let (site, path) = rest.split_once('/').unwrap_or((rest, ""));
        let store = connect(&format!("{scheme}://{site}")).with_context(|| format!("cannot open {text}"))?;
        let path = Path::from_url_path(path).with_context(|| format!("cannot open {text}"))?;
        Ok(Self::Stored(Stored { store, path, listed }))
    }
}

/// Opens the store of a URL without a path. Its settings are those of the environment, as AWS_REGION.
#[cfg(feature = "cloud")]
fn connect(site: &str) -> Result<Arc<dyn ObjectStore>> {
    use datafusion::object_store::http::HttpBuilder;
    use datafusion::object_store::{ClientOptions, parse_url_opts};
    let url = Url::parse(site)?;
    if ["http", "https"].contains(&url.scheme()) {
        let options = ClientOptions::new().with_allow_http(url.scheme() == "http");
        return Ok(Arc::new(HttpBuilder::new().with_url(site).with_client_options(options).build()?));
    }
    let variables =
        std::env::vars_os().filter_map(|(key, value)| key.into_string().ok().zip(value.into_string().ok()));
    let settings = variables
        .filter(|(key, _)| ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|prefix| key.starts_with(prefix)));
    let (store, _) = parse_url_opts(&url, settings)?;
    Ok(store.into())
}

#[cfg(not(feature = "cloud"))]
fn connect(site: &str) -> Result<Arc<dyn ObjectStore>> {
    bail!("{site}: this sparrow was built without object stores; build it with `--features cloud`")
}

/// The stores of a session: each is opened when a URL first names it.
#[derive(Debug, Default)]
pub(super) struct Stores {
    opened: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
}

/// Scheme, container, host and port. DataFusion's own leaves out the container, which is Azure's user name.
fn site(url: &Url) -> &str {
    &url[Position::BeforeScheme..Position::BeforePath]
}

impl Stores {
    fn opened(
        &self,
    ) -> datafusion::common::Result<std::sync::MutexGuard<'_, HashMap<String, Arc<dyn ObjectStore>>>> {
        self.opened.lock().map_err(|_| exec_datafusion_err!("opening an object store has panicked"))
    }
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.opened().ok()?.insert(site(url).to_string(), store)
    }

    fn get_store(&self, url: &Url) -> datafusion::common::Result<Arc<dyn ObjectStore>> {
        let mut opened = self.opened()?;
        if let Some(store) = opened.get(site(url)) {
            return Ok(store.clone());
        }
        let store = match url.scheme() {
            "file" => Arc::new(RegularFiles::default()),
            _ => connect(site(url)).map_err(|error| DataFusionError::External(error.into()))?,
        };
        opened.insert(site(url).to_string(), store.clone());
        Ok(store)
    }
}
