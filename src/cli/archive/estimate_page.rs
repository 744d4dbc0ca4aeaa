//! An estimate as one page: bytes against errors, and sensors as they were and as they would come back.

use anyhow::Result;

use super::super::page::{LineChart, Page, Series};
use super::estimate::{COLUMNS, EstimateArguments, Said, lines, summary};
use crate::archive::{Bound, Estimate};

pub(super) fn render(arguments: &EstimateArguments, estimate: &Estimate) -> Result<String> {
    let mut page = Page::new(&format!("Estimate for {}", arguments.inputs.join(" ")));
    page.paragraph(&summary(estimate));
    for said in arguments.verdict(estimate) {
        match said {
            Said::Sentence(text) => page.paragraph(&text),
            Said::Command(text) => page.command(&text),
        }
    }
    page.heading("What it would take");
    page.table(&COLUMNS, &lines(estimate));
    page.heading("Bytes against errors");
    let mut points: Vec<(f64, f64)> = estimate
        .ladder
        .iter()
        .filter(|line| !line.stored_as_they_were)
        .map(|line| (100.0 * line.nmae, line.bytes as f64))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (from, to) = (0.0, points.last().map_or(1.0, |point| point.0));
    let level = |name: &str, bytes: u64| Series {
        name: name.to_string(),
        points: vec![(from, bytes as f64), (to, bytes as f64)],
    };
    page.line_chart(&LineChart {
        title: "Trade-off".to_string(),
        x_label: "mean error, % of the mean absolute value".to_string(),
        y_label: "bytes (logarithmic)".to_string(),
        series: vec![
            Series { name: "sparrow".to_string(), points },
            level("the files as they are", estimate.source_bytes),
            level("Parquet + zstd", estimate.zstd_bytes),
            level("Parquet + byte-stream-split + zstd", estimate.byte_stream_split_bytes),
        ],
        log_y: true,
        markers: true,
        ..LineChart::default()
    });
    let shown = estimate.recommended.and_then(|line| estimate.ladder.get(line));
    if let Some(line) = shown.filter(|_| !estimate.examples.is_empty()) {
        page.heading(&format!(
            "Originals and what would come back at a mean error of {:.2} %",
            100.0 * line.nmae
        ));
    }
    for example in &estimate.examples {
        let series = |name: &str, values: &mut dyn Iterator<Item = f64>| Series {
            name: name.to_string(),
            points: example.along.iter().copied().zip(values).collect(),
        };
        let mut chart = LineChart {
            title: example.name.clone(),
            x_label: example.axis.clone(),
            y_label: "value".to_string(),
            series: vec![
                series("decoded", &mut example.decoded.iter().copied()),
                series("original", &mut example.original.iter().copied()),
            ],
            ..LineChart::default()
        };
        page.line_chart(&chart);
        let bound = |value: f64| match shown.map(|line| line.bound) {
            Some(Bound::MaxError(bound)) => Some(bound),
            Some(Bound::MaxRelativeError(share)) => Some(share * value.abs()),
            _ => None,
        };
        // Without a bound, or with no error at all, there is nothing to see.
        if example.original.iter().any(|value| bound(*value).is_some()) {
            let errors =
                example.decoded.iter().zip(&example.original).map(|(decoded, value)| decoded - value);
            let side = |sign: f64| {
                example.original.iter().map(move |value| bound(*value).map_or(f64::NAN, |bound| sign * bound))
            };
            chart.title = format!("{}: errors", example.name);
            chart.y_label = "decoded less original".to_string();
            chart.series = vec![
                series("error", &mut errors.into_iter()),
                series("bound", &mut side(1.0)),
                series("bound, below", &mut side(-1.0)),
            ];
            page.line_chart(&chart);
        }
    }
    page.heading("Commands");
    for line in &estimate.ladder {
        page.command(&arguments.command(estimate, line.aim));
    }
    Ok(page.render())
}
