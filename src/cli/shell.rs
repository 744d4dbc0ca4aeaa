//! The interactive shell.
//!
//! A few lines around a line editor. datafusion-cli as a library was weighed: it would bring a cloud
//! client, an allocator and a C build for what is used here of it, and prints errors of scripts
//! without failing.

use std::path::PathBuf;

use anyhow::Result;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::sql::Runner;
use crate::cli::messages::{tell, tell_lines};

const HELP: &str = "Statements end with ';'.
  FROM 'x.parquet'                 a file as a table
  SHOW TABLES; DESCRIBE t;         what there is
  SHOW FUNCTIONS LIKE 'sparse_%';  the functions of sparrow
  \\q                               quit (also: exit, quit, Ctrl-D)";

pub(super) async fn run(runner: &Runner) -> Result<()> {
    tell(format_args!("sparrow {}; \\? for help", env!("CARGO_PKG_VERSION")));
    let mut editor = DefaultEditor::new()?;
    let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".sparrow_history"));
    if let Some(history) = &history {
        // There is none on the first run.
        let _ = editor.load_history(history);
    }
    let mut pending = String::new();
    loop {
        let prompt = if pending.is_empty() { "sparrow> " } else { "    ...> " };
        match editor.readline(prompt) {
            Ok(line) => {
                match (pending.is_empty(), line.trim()) {
                    (true, "") => continue,
                    (true, "\\q" | "exit" | "quit" | "exit;" | "quit;") => break,
                    (true, "\\?" | "help" | "help;") => {
                        tell_lines(HELP);
                        continue;
                    }
                    _ => {}
                }
                pending.push_str(&line);
                pending.push('\n');
                if line.trim_end().ends_with(';') {
                    let statement = std::mem::take(&mut pending);
                    // A history that cannot be kept is no reason to stop.
                    let _ = editor.add_history_entry(statement.trim());
                    if let Err(error) = runner.run_script(&statement).await {
                        tell_lines(format_args!("error: {error:#}"));
                    }
                }
            }
            Err(ReadlineError::Interrupted) => pending.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(history) = &history {
        let _ = editor.save_history(history);
    }
    Ok(())
}
