//! Encodes and decodes a stream of record batches in an async pipeline with bounded memory.
//!
//!     cargo run --release --example stream
//!
//! A producer task sends batches through a channel that holds two of them; it waits while the
//! pipeline is busy, so memory does not grow with the number of rows. The pipeline is an ordinary
//! DataFusion plan over that stream: encode, decode, compare.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Field, Float64Type, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::*;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use sparrow::columnar::{to_vector_array, vector_type};
use sparrow::math::synthetic::{TrafficOptions, traffic};
use sparrow::sql::expr_fn::{options, sparse_decode, sparse_encode, sparse_train};

const SENSORS: usize = 100;
const ROWS_PER_BATCH: usize = 1024;

/// Speeds of a road network, made while they are read.
#[derive(Debug)]
struct Feed {
    schema: SchemaRef,
    days: usize,
}

impl PartitionStream for Feed {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), 2);
        let (sender, schema) = (builder.tx(), Arc::clone(&self.schema));
        let mut network =
            traffic(&TrafficOptions { sensors: SENSORS, days: self.days, ..Default::default() });
        builder.spawn(async move {
            let mut row = vec![0.0; SENSORS];
            loop {
                let mut values = Vec::with_capacity(ROWS_PER_BATCH * SENSORS);
                while values.len() < ROWS_PER_BATCH * SENSORS && network.next_row(&mut row) {
                    values.extend_from_slice(&row);
                }
                let rows = values.len() / SENSORS;
                if rows == 0 {
                    return Ok(());
                }
                let vectors = to_vector_array(values, SENSORS, &vec![true; rows]);
                let vectors =
                    vectors.map_err(|error| datafusion::error::DataFusionError::External(error.into()))?;
                let batch = RecordBatch::try_new(Arc::clone(&schema), vec![vectors])?;
                if sender.send(Ok(batch)).await.is_err() {
                    return Ok(()); // nobody reads any more
                }
            }
        });
        builder.build()
    }
}

fn feed(session: &SessionContext, days: usize) -> Result<DataFrame> {
    let schema = Arc::new(Schema::new(vec![Field::new("v", vector_type(), true)]));
    let feed: Arc<dyn PartitionStream> = Arc::new(Feed { schema: Arc::clone(&schema), days });
    session.read_table(Arc::new(StreamingTable::try_new(schema, vec![feed])?))
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut session = SessionContext::new();
    sparrow::sql::register_all(&mut session)?;

    let train = sparse_train(col("v"), Some(options([("atoms", lit(48))])));
    let trained = feed(&session, 7)?.aggregate(vec![], vec![train])?.collect().await?;
    let dictionary = Expr::Literal(ScalarValue::try_from_array(trained[0].column(0), 0)?, None);

    let mut stream = feed(&session, 60)?
        .with_column("code", sparse_encode(col("v"), dictionary.clone(), None))?
        .with_column("u", sparse_decode(col("code"), dictionary))?
        .execute_stream()
        .await?;
    let (mut rows, mut nonzeros, mut error, mut total) = (0, 0, 0.0, 0.0);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let doubles = |column: usize| -> Vec<f64> {
            batch.column(column).as_list::<i32>().values().as_primitive::<Float64Type>().values().to_vec()
        };
        let (v, u) = (doubles(0), doubles(2));
        rows += batch.num_rows();
        nonzeros += batch.column(1).as_list::<i32>().values().len();
        error += v.iter().zip(&u).map(|(a, b)| (a - b).abs()).sum::<f64>();
        total += v.iter().map(|a| a.abs()).sum::<f64>();
    }
    println!(
        "{rows} rows of {SENSORS} values, {:.1} nonzeros a row, NMAE {:.4}",
        nonzeros as f64 / rows as f64,
        error / total
    );
    Ok(())
}
