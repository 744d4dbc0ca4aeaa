//! Window functions.

mod encode_jointly;

pub(super) use encode_jointly::EncodeJointly;
