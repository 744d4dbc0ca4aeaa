//! The command, as tests run it.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::support::sparrow;

pub fn run(arguments: &[&str]) -> Output {
    sparrow().args(arguments).output().expect("it runs")
}

pub fn ok(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--format", "json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub fn fails(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What is said of wrong usage.
pub fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The only cell of a query's result.
pub fn sql(statements: &str) -> Value {
    let output = run(&["sql", "--format", "json", "-c", statements]);
    assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(text.lines().last().unwrap_or("")).expect("JSON")
}

pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Where an archive is made.
    pub fn staging(&self, name: &str) -> PathBuf {
        self.0.path().join(format!(".{name}.sparrow-partial"))
    }

    pub fn traffic(&self, name: &str, layout: &str, seed: u64) -> String {
        let path = self.path(name);
        if let Some(parent) = Path::new(&path).parent() {
            std::fs::create_dir_all(parent).expect("a folder");
        }
        let seed = seed.to_string();
        let output = run(&[
            "generate",
            "traffic",
            "--sensors",
            "12",
            "--days",
            "2",
            "--seed",
            &seed,
            "--layout",
            layout,
            "-o",
            &path,
        ]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }
}
