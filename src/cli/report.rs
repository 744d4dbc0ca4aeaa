//! What a benchmark prints: named figures in the order they were added.

use std::io::Write;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::messages::printable;
use super::report_text::text;

/// How the report is printed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ReportFormat {
    /// A line per figure, and lists as tables
    Table,
    /// One JSON object
    Json,
}

/// Named figures.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<(&'static str, Value)>);

impl Report {
    pub fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    pub fn print(&mut self, format: ReportFormat) -> Result<()> {
        self.add("peak_memory_bytes", peak_memory());
        let mut out = std::io::stdout().lock();
        match format {
            ReportFormat::Json => writeln!(out, "{}", printable(&serde_json::to_string(self)?))?,
            ReportFormat::Table => {
                write!(out, "{}", printable(&text(self.0.iter().map(|(name, value)| (*name, value)))))?;
            }
        }
        Ok(())
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// The most memory this process has held so far, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
