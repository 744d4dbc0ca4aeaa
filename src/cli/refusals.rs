//! Statements that DataFusion would misunderstand.

use std::collections::HashSet;

use anyhow::{Result, bail};
use datafusion::sql::parser::Statement;

use crate::sql::FILE_TYPE;

/// Refuses a statement that says something twice, or asks `COPY` for an archive.
pub(super) fn check(statement: &Statement) -> Result<()> {
    let options = match statement {
        Statement::CreateExternalTable(table) => &table.options,
        Statement::CopyTo(copy) => {
            if copy.stored_as.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case(FILE_TYPE)) {
                bail!(
                    "COPY writes files, and not archives: CREATE EXTERNAL TABLE a (...) STORED AS {FILE_TYPE} LOCATION '{}', and then \
                     INSERT INTO a SELECT ...; or COPY to Parquet, and sparrow compress",
                    copy.target
                );
            }
            &copy.options
        }
        _ => return Ok(()),
    };
    let mut seen = HashSet::new();
    for (key, _) in options {
        // DataFusion takes options without a namespace to be the format's.
        let key = key.to_lowercase();
        let name = key.strip_prefix("format.").unwrap_or(&key).to_string();
        if let Some(name) = seen.replace(name) {
            bail!("option {name} is given twice");
        }
    }
    Ok(())
}
