//! `sparrow compress`, `decompress`, `verify`, `inspect` and `append`.

mod compress;
mod decompress;
mod inspect;
mod paths;
mod progress;
mod verify;

pub(super) use compress::{AppendArguments, CompressArguments};
pub(super) use decompress::DecompressArguments;
pub(super) use inspect::InspectArguments;
pub(super) use verify::VerifyArguments;
