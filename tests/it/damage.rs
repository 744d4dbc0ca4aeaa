//! Archives that were damaged: whatever byte is changed or missing, it is told, and nothing wrong comes back.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use sparrow::archive::Archive;

use crate::archive::{FILES, bytes_of, folder, read, runtime, small_archive};

/// Damage either is an error, or does not change a value.
async fn expect_error_or_truth(store: &Arc<dyn ObjectStore>, truth: &RecordBatch, what: &str) -> bool {
    match read(store).await {
        Err(_) | Ok(Err(_)) => true,
        Ok(Ok(decoded)) => {
            assert!(decoded == *truth, "{what}: other values, and no error");
            false
        }
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    runtime().block_on(async {
        let (store, _) = small_archive().await;
        let truth = read(&store).await.expect("opened").expect("read");
        for name in FILES {
            let (path, bytes) = bytes_of(&store, name).await;
            let mut noticed = 0;
            for place in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << (place % 8);
                store.put(&path, damaged.into()).await.expect("stored");
                noticed += usize::from(
                    expect_error_or_truth(&store, &truth, &format!("{name}, byte {place}")).await,
                );
                // The whole file is hashed too.
                let problems = match Archive::open(store.clone(), folder()).await {
                    Ok(archive) => archive.verify(None).await.map_or(1, |found| found.problems.len()),
                    Err(_) => 1,
                };
                assert!(problems > 0, "verify did not notice byte {place} of {name}");
            }
            assert!(noticed * 10 > bytes.len() * 9, "{name}: {noticed} of {}", bytes.len());
            store.put(&path, bytes.into()).await.expect("stored");
        }
    });
}

#[test]
fn every_truncation_is_noticed() {
    runtime().block_on(async {
        let (store, _) = small_archive().await;
        for name in FILES {
            let (path, bytes) = bytes_of(&store, name).await;
            for length in 0..bytes.len() {
                store.put(&path, bytes[..length].to_vec().into()).await.expect("stored");
                let error = match read(&store).await {
                    Err(error) => error.to_string(),
                    Ok(Err(error)) => error,
                    Ok(Ok(_)) => panic!("{name} cut to {length} bytes is read"),
                };
                // Not in the words of the store, which nobody knows.
                assert!(error.contains("corrupt"), "{name} cut to {length} bytes: {error}");
            }
            store.put(&path, bytes.into()).await.expect("stored");
        }
    });
}
