//! `sparrow estimate`, `compress`, `decompress`, `verify`, `inspect` and `append`.

mod arguments;
mod claim;
mod compress;
mod decompress;
mod estimate;
mod estimate_page;
mod inspect;
mod local_job;
mod object_job;
mod object_tables;
mod originals;
mod paths;
mod progress;
mod upload;
mod verify;

pub(super) use compress::{AppendArguments, CompressArguments};
pub(super) use decompress::DecompressArguments;
pub(super) use estimate::EstimateArguments;
pub(super) use inspect::InspectArguments;
pub(super) use verify::VerifyArguments;
