//! Data made from a seed: the same bytes on every machine.

mod random;
mod syn;
mod traffic;

pub use syn::syn;
pub use traffic::{INTERVAL_MINUTES, Incident, Traffic, TrafficOptions, traffic};
