//! Scalar functions, one file each.

mod atoms;
mod decode;
mod dictionary_info;
mod encode;
mod objective;
mod residual;

pub(super) use atoms::Atoms;
pub(super) use decode::Decode;
pub(super) use dictionary_info::DictionaryInfo;
pub(super) use encode::Encode;
pub(super) use objective::Objective;
pub(super) use residual::Residual;
