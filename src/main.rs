//! The `sparrow` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sparrow::cli::main()
}
