//! An object that is uploaded in parts, and appears when that is completed.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, MultipartUpload, ObjectStore, ObjectStoreExt};
use tokio::task::JoinSet;

/// Stores take no smaller parts, but for the last.
const PART_BYTES: usize = 5 << 20;
const PARTS_IN_FLIGHT: usize = 4;

/// An object on its way into a store.
pub(super) struct Upload {
    path: Path,
    upload: Box<dyn MultipartUpload>,
    /// What is too little for a part.
    rest: Vec<u8>,
    parts: JoinSet<object_store::Result<()>>,
}

/// An object that is in the store as a whole, and not seen there yet. Nothing of it is in memory.
pub(super) struct Uploaded {
    path: Path,
    upload: Box<dyn MultipartUpload>,
}

impl Upload {
    pub async fn begin(store: &Arc<dyn ObjectStore>, path: Path) -> Result<Self> {
        let upload = store.put_multipart(&path).await.with_context(|| format!("cannot write {path}"))?;
        Ok(Self { path, upload, rest: Vec::new(), parts: JoinSet::new() })
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        if self.rest.len() >= PART_BYTES {
            let mut whole = Bytes::from(std::mem::take(&mut self.rest));
            while whole.len() >= PART_BYTES {
                self.send(whole.split_to(PART_BYTES)).await?;
            }
            self.rest = whole.to_vec();
        }
        Ok(())
    }

    async fn send(&mut self, part: Bytes) -> Result<()> {
        while self.parts.len() >= PARTS_IN_FLIGHT {
            self.wait_for_one().await?;
        }
        self.parts.spawn(self.upload.put_part(part.into()));
        Ok(())
    }

    async fn wait_for_one(&mut self) -> Result<()> {
        let cannot = || format!("cannot write {}", self.path);
        match self.parts.join_next().await {
            Some(sent) => Ok(sent.with_context(cannot)?.with_context(cannot)?),
            None => Ok(()),
        }
    }

    /// Uploads what is left.
    pub async fn end(mut self) -> Result<Uploaded> {
        let sent = async {
            let rest = Bytes::from(std::mem::take(&mut self.rest));
            if !rest.is_empty() {
                self.send(rest).await?;
            }
            while !self.parts.is_empty() {
                self.wait_for_one().await?;
            }
            Ok(())
        };
        match sent.await {
            Ok(()) => Ok(Uploaded { path: self.path, upload: self.upload }),
            Err(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    /// The store keeps the parts of uploads that nobody ends.
    pub async fn abandon(mut self) {
        self.parts.shutdown().await;
        let _ = self.upload.abort().await;
    }
}

impl Uploaded {
    /// Lets all of these appear, one right after the other. Where one does not, those after it are given up.
    pub async fn complete_all(all: Vec<Self>) -> Result<()> {
        let (mut done, count) = (0, all.len());
        let mut all = all.into_iter();
        while let Some(mut next) = all.next() {
            if let Err(error) = next.upload.complete().await {
                let told = format!("cannot write {}; {done} of {count} tables are there", next.path);
                Self::abandon_all(std::iter::once(next).chain(all)).await;
                return Err(error).context(told);
            }
            done += 1;
        }
        Ok(())
    }

    pub async fn abandon_all(all: impl IntoIterator<Item = Self>) {
        for mut one in all {
            let _ = one.upload.abort().await;
        }
    }
}
