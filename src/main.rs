//! The `sparrow` command.

use std::process::ExitCode;

/// Blocks are large and of one size: the system's allocator gives them back and asks for them again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sparrow::cli::main()
}
