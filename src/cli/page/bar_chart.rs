//! Bars from zero, numbered from zero.

use super::axis::{Axis, Frame, fits, number};

/// A chart of bars, from a few up to about a thousand.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct BarChart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    /// The height of each bar; one that is not finite leaves its place empty.
    pub bars: Vec<f64>,
}

impl BarChart {
    pub(super) fn figure(&self) -> String {
        let bars: Vec<(usize, f64)> =
            self.bars.iter().copied().enumerate().filter(|&(_, height)| fits(height, false)).collect();
        let flat = bars.iter().all(|&(_, height)| height == 0.0);
        let heights = bars.iter().map(|&(_, height)| height).chain([0.0, if flat { 1.0 } else { 0.0 }]);
        let ends = [-0.5, self.bars.len().max(1) as f64 - 0.5];
        let frame = Frame::new(
            Axis::new(ends.into_iter(), false, 7).whole(),
            Axis::new(heights, false, 6).rounded_out(),
        );
        let ((start, zero), (end, _)) = (frame.place((ends[0], 0.0)), frame.place((ends[1], 0.0)));
        let slot = (end - start) / self.bars.len().max(1) as f64;
        // Thin bars overlap a little, as seams between them would shimmer.
        let width = if slot < 3.0 { slot + 1.0 } else { (slot * 0.8).min(48.0) };
        let mut marks = String::new();
        for (index, height) in bars {
            let (middle, top) = frame.place((index as f64, height));
            let (x, y, extent) = (middle - width / 2.0, top.min(zero), (top - zero).abs());
            marks += &format!(
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{extent:.2}\">\
                 <title>{index}: {}</title></rect>\n",
                number(height)
            );
        }
        if !marks.is_empty() {
            marks += &format!("<path class=\"axis\" d=\"M{start:.1} {zero:.1}H{end:.1}\"/>\n");
        }
        frame.figure([&self.title, &self.x_label, &self.y_label], &marks, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(bars: Vec<f64>) -> String {
        BarChart { bars, ..BarChart::default() }.figure()
    }

    #[test]
    fn bars_stand_on_zero_and_keep_their_numbers() {
        let html = figure(vec![2.0, f64::NAN, -1.0]);
        assert_eq!(html.matches("<rect").count(), 2);
        assert!(html.contains("<title>0: 2</title>") && html.contains("<title>2: −1</title>"));
        let part = |name: &str| -> Vec<f64> {
            let marker = format!(" {name}=\"");
            let rects = html.split("<rect").skip(1).filter_map(|rect| rect.split_once(&marker));
            rects.map(|(_, rest)| rest.split('"').next().unwrap().parse().unwrap()).collect()
        };
        let (top, height) = (part("y"), part("height"));
        assert!((height[0] / height[1] - 2.0).abs() < 1e-3);
        assert!((top[0] + height[0] - top[1]).abs() < 0.011, "both touch the zero line");
    }

    #[test]
    fn no_bars_flat_bars_and_many_bars_are_fine() {
        assert!(figure(vec![]).contains("no data") && figure(vec![f64::NAN]).contains("no data"));
        let flat = figure(vec![0.0; 3]);
        assert!(!flat.contains("NaN") && flat.contains(">0.8<") && !flat.contains("−"));
        assert_eq!(figure((0..1000).map(f64::from).collect()).matches("<rect").count(), 1000);
    }
}
