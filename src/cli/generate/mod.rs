//! `sparrow generate`: data made from a seed, as Parquet.

mod syn;
mod traffic;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum GenerateArguments {
    /// Paper 1's SynN: columns i and v; signal i belongs to group i % groups
    Syn(syn::SynArguments),
    /// Speeds on a made-up road network, every five minutes
    Traffic(traffic::TrafficArguments),
}

pub(super) fn run(arguments: &GenerateArguments) -> Result<()> {
    match arguments {
        GenerateArguments::Syn(arguments) => syn::run(arguments),
        GenerateArguments::Traffic(arguments) => traffic::run(arguments),
    }
}
