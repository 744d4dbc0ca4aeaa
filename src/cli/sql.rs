//! `sparrow sql`: statements from the command line, from files, from a pipe, or typed in.

use std::io::{IsTerminal, Read};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::{ArgMatches, Args};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::copy::StagedCopy;
use super::parse::parse_count;
use super::print::{Format, print};
use super::progress::TrainingProgress;
use super::readable::readable;
use super::session::session;
use super::sql_depth::check_depth;
use super::{in_order, refusals, shell};
use crate::archive::panic_text;

/// The stack of a statement's thread: planning and dropping a plan go down all of its levels, of which there are some
/// (`sql_depth`).
const STACK: usize = 64 << 20;

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
        let tokens = Tokenizer::new(dialect.as_ref(), text).tokenize_with_location();
        let tokens = tokens.map_err(|error| plain(ParserError::from(error).into()))?;
        check_depth(&tokens)?;
        let mut parser = DFParserBuilder::new(tokens).with_dialect(dialect.as_ref()).build()?;
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
    async fn run_statement(&self, statement: Statement) -> Result<()> {
        self.progress.reset();
        refusals::check(&statement)?;
        let mut statement = readable(statement)?;
        let copy = match &mut statement {
            Statement::CopyTo(copy) => StagedCopy::redirect(copy)?,
            _ => None,
        };
        let work = execute(self.session.clone(), statement, self.format, Arc::clone(&self.progress));
        let (stop, stopped) = oneshot::channel::<()>();
        let (ended, mut end) = oneshot::channel();
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name("statement".to_string()).stack_size(STACK);
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                let work = AssertUnwindSafe(work).catch_unwind();
                tokio::select! {
                    // Nobody may wait any more.
                    result = work => { let _ = ended.send(result); }
                    _ = stopped => {}
                }
            });
        });
        thread.context("cannot start a thread")?;
        tokio::select! {
            result = &mut end => {
                match result? {
                    Ok(done) => done?,
                    Err(panic) => bail!("the statement has panicked: {}", panic_text(panic.as_ref())),
                }
                copy.map_or(Ok(()), StagedCopy::publish)
            }
            _ = tokio::signal::ctrl_c() => {
                // Training listens to the flag, everything else ends where it next waits.
                self.progress.cancel();
                let _ = stop.send(());
                let _ = end.await;
                self.progress.clear();
                Err(anyhow!("cancelled"))
            }
        }
    }
}

/// Plans a statement, runs it and prints what it gives.
async fn execute(
    session: SessionContext,
    statement: Statement,
    format: Format,
    progress: Arc<TrainingProgress>,
) -> Result<()> {
    let plan = session.state().statement_to_plan(statement).await.map_err(plain)?;
    let stream = match in_order::inserts_a_table(&plan)? {
        true => in_order::run(&session, &plan).await.map_err(plain)?,
        false => {
            let frame = session.execute_logical_plan(plan).await.map_err(plain)?;
            frame.execute_stream().await.map_err(plain)?
        }
    };
    let printed = print(stream, format).await;
    progress.clear();
    printed.map_err(|error| match error.downcast::<DataFusionError>() {
        Ok(error) => plain(error),
        Err(error) => error,
    })
}

/// The error without a backtrace, and with advice where there is some.
fn plain(error: DataFusionError) -> anyhow::Error {
    use DataFusionError::ResourcesExhausted;
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
