//! Archives as tables: `CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '...'`.

mod exec;
mod insert;
mod insertion;
mod moving;
mod opened;
mod options;
mod place;
mod pruning;
mod selections;
mod statistics;
mod table;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::object_store::ObjectStoreExt;
use datafusion::prelude::SessionContext;

pub use exec::ArchiveExec;
pub use table::ArchiveTable;

use crate::archive::{ArchiveError, read_dictionary};
use crate::math::Dictionary;

/// What follows `STORED AS`.
pub const FILE_TYPE: &str = "SPARROW";

/// Makes tables of archives.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::execution::session_state::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use sparrow::sql::{ArchiveTableFactory, FILE_TYPE};
///
/// let state = SessionStateBuilder::new()
///     .with_default_features()
///     .with_table_factory(FILE_TYPE.to_string(), Arc::new(ArchiveTableFactory))
///     .build();
/// let session = SessionContext::new_with_state(state);
/// assert!(session.state().table_factories().contains_key("SPARROW"));
/// ```
#[derive(Debug, Default)]
pub struct ArchiveTableFactory;

#[async_trait]
impl TableProviderFactory for ArchiveTableFactory {
    async fn create(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let [location] = &command.locations[..] else {
            return plan_err!("an archive has one LOCATION, found {}", command.locations.len());
        };
        if !command.table_partition_cols.is_empty() {
            return plan_err!("PARTITIONED BY is not needed: an archive knows its partitions");
        }
        let promised = [
            (
                !command.order_exprs.is_empty(),
                "WITH ORDER",
                "rows stay in the order in which they are inserted",
            ),
            (command.unbounded, "UNBOUNDED", "it ends"),
            (!command.constraints.is_empty(), "a constraint", "its rows are not compared with each other"),
        ];
        if let Some((_, what, why)) = promised.iter().find(|(given, ..)| *given) {
            return plan_err!("{what} is nothing that an archive can promise: {why}");
        }
        // A folder, whether or not it is there.
        let location = if location.ends_with('/') { location.clone() } else { format!("{location}/") };
        let url = ListingTableUrl::parse(&location)?;
        if url.get_glob().is_some() {
            // What it begins with is another folder.
            return plan_err!(
                "the LOCATION {location} is a pattern, and an archive is one folder; if *, ? or [ are part of its name, \
                 write it as a URL such as file:///data/%5B1%5D/"
            );
        }
        let store = state.runtime_env().object_store(&url)?;
        let schema = Arc::new(command.schema.as_arrow().clone());
        let mut asked = options::parse(&command.options)?;
        if let Some(location) = options::dictionary(&command.options) {
            let dictionary = given_dictionary(state, location, asked.job.learn.lambda).await?;
            asked = asked.with_dictionary(dictionary)?;
        }
        let (folder, defaults) = (url.prefix().clone(), command.column_defaults.clone());
        Ok(Arc::new(ArchiveTable::open(store, folder, schema, asked, defaults).await?))
    }
}

/// A dictionary from a Parquet file of any store that the session knows.
async fn given_dictionary(state: &dyn Session, location: &str, lambda: Option<f64>) -> Result<Dictionary> {
    let url = ListingTableUrl::parse(location)?;
    let found = state.runtime_env().object_store(&url)?.get(url.prefix()).await?;
    read_dictionary(found.bytes().await?, lambda).map_err(|error| external(error.at(location)))
}

/// Lets a session create tables `STORED AS SPARROW`.
///
/// Build the session by [`corrected`](crate::sql::corrected), as here: DataFusion 55 alone gives wrong rows for some joins whose
/// tables have columns of one name, whatever the tables are. It also switches the option
/// `datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown` off; while that is on, archives do not use what joins and
/// `ORDER BY ... LIMIT` find out while they run, since nothing tells those filters from wrong ones of aggregates.
///
/// ```
/// use datafusion::execution::session_state::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let state = sparrow::sql::corrected(SessionStateBuilder::new().with_default_features()).build();
/// let session = SessionContext::new_with_state(state);
/// sparrow::sql::register_archives(&session);
/// let folder = std::env::temp_dir().join(format!("sparrow-archive-{}", std::process::id()));
/// let create = format!(
///     "CREATE EXTERNAL TABLE t (time BIGINT, v DOUBLE[]) STORED AS SPARROW LOCATION '{}' OPTIONS ('max_error' '0.01')",
///     folder.display()
/// );
/// session.sql(&create).await?;
/// session.sql("INSERT INTO t VALUES (1, [1.0, 2.0]), (2, [2.0, 3.0])").await?.collect().await?;
/// assert_eq!(session.sql("SELECT v FROM t WHERE time > 1").await?.count().await?, 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub fn register_archives(session: &SessionContext) {
    let state = session.state_ref();
    state.write().table_factories_mut().insert(FILE_TYPE.to_string(), Arc::new(ArchiveTableFactory));
}

fn external(error: ArchiveError) -> DataFusionError {
    match error {
        ArchiveError::Layout(what) => DataFusionError::Execution(what),
        other => DataFusionError::External(Box::new(other)),
    }
}
