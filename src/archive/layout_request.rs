//! Which columns hold the values, as users say it, and what that means for a table.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use super::layout::{Layout, item_type, told_of_other_numbers};
use super::listed::listed;
use super::number::Number;
use super::{ArchiveError, Result};

/// Which columns hold the values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum LayoutRequest {
    /// The only column of lists of numbers.
    #[default]
    Find,
    /// This layout.
    Given(Layout),
    /// All columns that match one of the patterns, in which `*` stands for anything.
    Columns(Vec<String>),
}

impl LayoutRequest {
    /// The layout that the options `column`, `columns`, `long` and `window` stand for.
    pub fn from_options(
        column: Option<&str>,
        columns: Option<&str>,
        long: Option<&str>,
        window: Option<usize>,
    ) -> Result<Self> {
        let names = |list: &str| list.split(',').map(|name| name.trim().to_string()).collect::<Vec<_>>();
        let layout = match (column.map(str::to_string), columns, long, window) {
            (None, None, None, None) => return Ok(Self::Find),
            (None, Some(columns), None, None) => return Ok(Self::Columns(names(columns))),
            (Some(column), None, None, None) => Layout::List { column },
            (Some(column), None, None, Some(length)) => {
                Layout::Window { column, series: None, length, interleaved: false }
            }
            (None, None, Some(long), window) => match (<[String; 3]>::try_from(names(long)), window) {
                (Ok([time, series, value]), None) => Layout::Long { time, series, value },
                (Ok([_, series, column]), Some(length)) => {
                    Layout::Window { column, series: Some(series), length, interleaved: true }
                }
                (Err(_), _) => {
                    return Err(ArchiveError::layout(format!(
                        "--long (or long) takes three columns, time,series,value; found {long}"
                    )));
                }
            },
            _ => {
                return Err(ArchiveError::layout(
                    "one of column, columns and long says where the values are; window goes with column or long",
                ));
            }
        };
        Ok(Self::Given(layout))
    }
}

impl LayoutRequest {
    /// Fails where a table with these columns has no such layout.
    #[cfg(feature = "sql")]
    pub(crate) fn check(&self, schema: &SchemaRef) -> Result<()> {
        super::layout::Table::new(find_layout(self, schema)?, schema.clone(), Vec::new()).map(|_| ())
    }

    /// The layout that it stands for in a table with these columns.
    #[cfg(feature = "sql")]
    pub(crate) fn layout(&self, schema: &SchemaRef) -> Result<Layout> {
        find_layout(self, schema)
    }
}

/// The layout that is asked for, in a table with these columns.
pub(super) fn find_layout(request: &LayoutRequest, schema: &SchemaRef) -> Result<Layout> {
    match request {
        LayoutRequest::Given(layout) => Ok(layout.clone()),
        LayoutRequest::Columns(patterns) => {
            let names = || schema.fields().iter().map(|field| field.name().as_str());
            if let Some(pattern) = patterns.iter().find(|p| !names().any(|name| matches_pattern(p, name))) {
                let names: Vec<&str> = names().collect();
                return Err(ArchiveError::layout(format!(
                    "no column matches {pattern}; the columns are {}",
                    listed(&names)
                )));
            }
            let matches = |name: &str| patterns.iter().any(|pattern| matches_pattern(pattern, name));
            let fields = schema.fields().iter().filter(|field| matches(field.name()));
            let columns: Vec<String> = fields.map(|field| field.name().clone()).collect();
            Ok(Layout::Wide { columns })
        }
        LayoutRequest::Find => {
            let is_vector = |field: &&Arc<arrow::datatypes::Field>| {
                item_type(field.data_type()).is_some_and(|item| Number::of(item).is_some())
            };
            let candidates: Vec<&str> =
                schema.fields().iter().filter(is_vector).map(|field| field.name().as_str()).collect();
            match candidates[..] {
                [column] => Ok(Layout::List { column: column.to_string() }),
                [] => Err(ArchiveError::layout(told_of_other_numbers(schema).unwrap_or_else(|| {
                    "no column of lists of numbers; say where the values are: --columns 's*' (a column per sensor), \
                     --long time,series,value (a row per sensor and time) or --column x --window n (one series)"
                        .to_string()
                }))),
                _ => Err(ArchiveError::layout(format!(
                    "several columns of lists of numbers: {}; choose one with --column",
                    listed(&candidates)
                ))),
            }
        }
    }
}

/// `*` stands for anything.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    match last {
        None => rest.is_empty(),
        Some(part) => name.len() >= first.len() + part.len() && name.ends_with(part),
    }
}
