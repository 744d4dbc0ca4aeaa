//! `sparrow sql`: statements from the command line, from files, from a pipe, or typed in.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::{ArgMatches, Args};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::copy::StagedCopy;
use super::parse::parse_count;
use super::print::{Format, print};
use super::progress::TrainingProgress;
use super::session::session;
use super::shell;

#[derive(Debug, Args)]
pub(super) struct SqlArguments {
    /// SQL to run; may be repeated, and mixed with -f in any order
    #[arg(short, long, value_name = "SQL", allow_hyphen_values = true)]
    command: Vec<String>,
    /// A file of SQL to run; may be repeated
    #[arg(short, long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// How results are printed
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Threads to use [default: all cores]
    #[arg(long, value_parser = parse_count::<1024>)]
    threads: Option<usize>,
    /// Where each -c and -f stood, in the order of the fields above.
    #[arg(skip)]
    positions: (Vec<usize>, Vec<usize>),
}

/// A text of SQL and where it came from.
struct Script {
    text: String,
    origin: String,
}

impl SqlArguments {
    /// Keeps the order of -c and -f, which the parsed arguments have lost.
    pub fn remember_order(&mut self, matches: Option<&ArgMatches>) {
        let of = |name| matches.and_then(|m| m.indices_of(name)).map(Iterator::collect).unwrap_or_default();
        self.positions = (of("command"), of("file"));
    }

    fn scripts(&self) -> Result<Vec<Script>> {
        let mut scripts = Vec::new();
        for (n, (text, position)) in self.command.iter().zip(&self.positions.0).enumerate() {
            scripts.push((*position, Script { text: text.clone(), origin: format!("-c {}", n + 1) }));
        }
        for (path, position) in self.file.iter().zip(&self.positions.1) {
            let origin = path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {origin}"))?;
            scripts.push((*position, Script { text, origin }));
        }
        scripts.sort_by_key(|(position, _)| *position);
        Ok(scripts.into_iter().map(|(_, script)| script).collect())
    }
}

pub(super) async fn run(arguments: SqlArguments) -> Result<()> {
    // Files are read before anything runs: a missing one should not be found out half-way.
    let mut scripts = arguments.scripts()?;
    let progress = Arc::new(TrainingProgress::default());
    let session = session(arguments.threads, Arc::clone(&progress))?;
    let runner = Runner { session, progress, format: arguments.format };
    if scripts.is_empty() {
        if std::io::stdin().is_terminal() {
            return shell::run(&runner).await;
        }
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        scripts.push(Script { text, origin: "standard input".to_string() });
    }
    for script in scripts {
        runner.run_script(&script.text).await.with_context(|| script.origin)?;
    }
    Ok(())
}

/// Runs statements in one session.
pub(super) struct Runner {
    session: SessionContext,
    progress: Arc<TrainingProgress>,
    format: Format,
}

impl Runner {
    /// Runs the statements of a text one by one and stops at the first that fails.
    pub async fn run_script(&self, text: &str) -> Result<()> {
        let dialect = self.session.state().config().options().sql_parser.dialect;
        let dialect = dialect_from_str(dialect).ok_or_else(|| anyhow!("unknown SQL dialect {dialect}"))?;
        let mut parser = DFParserBuilder::new(text).with_dialect(dialect.as_ref()).build()?;
        let mut number = 0;
        loop {
            while parser.parser.consume_token(&Token::SemiColon) {}
            if parser.parser.peek_token().token == Token::EOF {
                return Ok(());
            }
            number += 1;
            let context = || format!("statement {number}");
            let statement = parser.parse_statement().map_err(plain).with_context(context)?;
            let next = parser.parser.peek_token().token;
            if next != Token::SemiColon && next != Token::EOF {
                return Err(anyhow!("expected ';' or the end, found {next}")).with_context(context);
            }
            self.run_statement(statement).await.with_context(context)?;
        }
    }

    /// Runs one statement; Ctrl-C ends it.
    async fn run_statement(&self, mut statement: Statement) -> Result<()> {
        self.progress.reset();
        let copy = match &mut statement {
            Statement::CopyTo(copy) => StagedCopy::redirect(copy)?,
            _ => None,
        };
        let (session, format) = (self.session.clone(), self.format);
        let progress = Arc::clone(&self.progress);
        let mut work = tokio::spawn(async move {
            let plan = session.state().statement_to_plan(statement).await.map_err(plain)?;
            let frame = session.execute_logical_plan(plan).await.map_err(plain)?;
            let stream = frame.execute_stream().await.map_err(plain)?;
            let printed = print(stream, format).await;
            progress.clear();
            printed.map_err(|error| match error.downcast::<datafusion::error::DataFusionError>() {
                Ok(error) => plain(error),
                Err(error) => error,
            })
        });
        tokio::select! {
            result = &mut work => {
                result??;
                copy.map_or(Ok(()), StagedCopy::publish)
            }
            _ = tokio::signal::ctrl_c() => {
                // Training listens to the flag, everything else ends where it next waits.
                self.progress.cancel();
                work.abort();
                let _ = work.await;
                self.progress.clear();
                Err(anyhow!("cancelled"))
            }
        }
    }
}

/// The error without a backtrace, and with advice where there is some.
fn plain(error: datafusion::error::DataFusionError) -> anyhow::Error {
    use datafusion::error::DataFusionError::ResourcesExhausted;
    let advice = match error.find_root() {
        ResourcesExhausted(_) => {
            "\nhint: raise datafusion.runtime.memory_limit; sparse_train and sparse_dictionary hold up to `sample` rows and \
             what learning from them needs, so that fewer of them, or fewer atoms, take less; sparse_encode_jointly holds four \
             numbers for every atom and row of a partition"
        }
        root if root.strip_backtrace().contains("' not found") => {
            "\nhint: a file is a table in single quotes, its path relative to the current folder: FROM 'x.parquet'; \
             a folder's ends in /: FROM 'tables/'"
        }
        _ => "",
    };
    anyhow!("{}{advice}", error.strip_backtrace())
}
