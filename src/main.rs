//! The `sparrow` command.

use std::process::ExitCode;

/// Blocks are large and of one size: the system's allocator gives them back and asks for them again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of mimalloc's option for how long it waits before giving memory back, which its bindings do not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// Several blocks' time.
const PURGE_AFTER_MILLISECONDS: std::ffi::c_long = 250;

fn main() -> ExitCode {
    // What goes back is cleared by the system when it is asked for again, which takes time; what is kept for long is in
    // pieces that nobody needs, and adds up. Blocks come and go faster than this. `MIMALLOC_PURGE_DELAY` says otherwise.
    // Sound: sets a number that mimalloc reads, and may be called at any time.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_AFTER_MILLISECONDS) };
    sparrow::cli::main()
}
