//! A file that is being uploaded, hashed on its way.

use std::hash::Hasher as _;

use object_store::WriteMultipart;
use twox_hash::xxhash3_64::Hasher;

use super::Result;
use super::manifest::hash_text;

/// Bytes on their way out, and what is known of them.
pub(super) struct Output {
    pub upload: WriteMultipart,
    pub length: u64,
    /// What the observer knows of.
    pub reported: u64,
    hasher: Hasher,
}

impl Output {
    pub fn new(upload: WriteMultipart) -> Self {
        Self { upload, length: 0, reported: 0, hasher: Hasher::new() }
    }

    pub async fn write(&mut self, bytes: Vec<u8>) -> Result<()> {
        const PARTS_IN_FLIGHT: usize = 2;
        self.upload.wait_for_capacity(PARTS_IN_FLIGHT).await?;
        self.length += bytes.len() as u64;
        self.hasher.write(&bytes);
        self.upload.put(bytes.into());
        Ok(())
    }

    pub fn hash(&self) -> String {
        hash_text(self.hasher.finish())
    }
}
