//! Which column of a table is meant.

use anyhow::{Context, Result, bail, ensure};
use datafusion::arrow::datatypes::{DataType, Fields};

use crate::archive::listed;

/// The named column, or the only one that `fits`; `what` names what is looked for.
pub(super) fn find_column(
    fields: &Fields,
    name: Option<&str>,
    what: &str,
    fits: fn(&DataType) -> bool,
) -> Result<usize> {
    if let Some(name) = name {
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        let found = fields.iter().position(|field| field.name() == name);
        let found = found.with_context(|| format!("no column '{name}'; there are: {}", listed(&names)))?;
        let data_type = fields[found].data_type();
        ensure!(fits(data_type), "column '{name}' is not one of {what} but of {data_type}");
        return Ok(found);
    }
    let fitting = fields.iter().enumerate().filter(|(_, field)| fits(field.data_type()));
    match fitting.map(|(i, _)| i).collect::<Vec<_>>()[..] {
        [only] => Ok(only),
        [] => bail!("no column of {what}"),
        _ => bail!("several columns of {what}; name one with --column"),
    }
}
