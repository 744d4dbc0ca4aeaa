//! Lines over two axes, told apart by colour and by dashes.

use super::axis::{Axis, Frame, fits, number};
use super::escaped;

/// As many looks as the style sheet has; further series use them again.
const LOOKS: usize = 10;
/// A line with more points than two for each column is reduced to the extremes of the columns.
const COLUMNS: usize = 300;

type Point = (f64, f64);

/// The points of one line, in the order in which they are joined.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Series {
    pub name: String,
    /// Where a point is not finite, or not positive on a logarithmic axis, the line is broken.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct LineChart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub series: Vec<Series>,
    pub log_x: bool,
    pub log_y: bool,
    /// Draws a dot at each point, which tells its values under the pointer.
    pub markers: bool,
}

impl LineChart {
    pub(super) fn figure(&self) -> String {
        let shown = |&(x, y): &Point| (fits(x, self.log_x) && fits(y, self.log_y)).then_some((x, y));
        let lines: Vec<Vec<Option<Point>>> =
            self.series.iter().map(|series| series.points.iter().map(shown).collect()).collect();
        let points = || lines.iter().flatten().flatten();
        let x = Axis::new(points().map(|point| point.0), self.log_x, 7);
        let y = Axis::new(points().map(|point| point.1), self.log_y, 6).rounded_out();
        let column = |point: Point| (x.place(point.0) * COLUMNS as f64) as usize;
        let lines: Vec<Vec<Option<Point>>> = lines.iter().map(|line| thinned(line, column)).collect();
        let frame = Frame::new(x, y);
        let (mut marks, mut legend) = (String::new(), String::new());
        for (index, (series, line)) in self.series.iter().zip(&lines).enumerate() {
            let (look, name) = (index % LOOKS, escaped(&series.name));
            if line.iter().any(Option::is_some) {
                marks += &format!("<g class=\"line look{look}\">{}</g>\n", self.drawn(&name, line, &frame));
            }
            if !name.is_empty() {
                legend += &format!(
                    "<li><svg role=\"img\" class=\"line look{look}\" viewBox=\"0 0 36 10\">\
                     <title>Line of {name}</title><path d=\"M1 5H35\"/></svg>{name}</li>\n"
                );
            }
        }
        let legend = if legend.is_empty() { legend } else { format!("<ul>\n{legend}</ul>\n") };
        frame.figure([&self.title, &self.x_label, &self.y_label], &marks, &legend)
    }

    /// The line with its dots. A point without neighbours gets a dot in any case, or it would be invisible.
    fn drawn(&self, name: &str, line: &[Option<Point>], frame: &Frame) -> String {
        let (mut path, mut dots) = (String::new(), String::new());
        for run in line.split(Option::is_none) {
            for (index, &point) in run.iter().flatten().enumerate() {
                let (x, y) = frame.place(point);
                path += &format!("{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
                if self.markers || run.len() == 1 {
                    let values = format!("{}, {}", number(point.0), number(point.1));
                    dots += &format!(
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{name}: {values}</title></circle>"
                    );
                }
            }
        }
        format!("<path d=\"{path}\"/>{dots}")
    }
}

/// A line that looks the same with fewer points. Points that jump between columns, or gaps without number,
/// defeat the columns; then equally many points go together.
fn thinned(line: &[Option<Point>], column: impl Fn(Point) -> usize) -> Vec<Option<Point>> {
    if line.len() <= 2 * COLUMNS {
        return line.to_vec();
    }
    let same_column = |a: &Option<Point>, b: &Option<Point>| a.map(&column) == b.map(&column);
    let by_column: Vec<Option<Point>> = line.chunk_by(same_column).flat_map(extremes).collect();
    if by_column.len() <= 3 * COLUMNS {
        return by_column;
    }
    line.chunks(line.len().div_ceil(COLUMNS)).flat_map(extremes).collect()
}

/// The lowest point, the highest and a gap, as far as there are such, in the order they came.
fn extremes(chunk: &[Option<Point>]) -> Vec<Option<Point>> {
    let heights = || chunk.iter().enumerate().filter_map(|(index, point)| Some((index, (*point)?.1)));
    let lowest = heights().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index);
    let highest = heights().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index);
    let mut kept: Vec<usize> =
        [lowest, highest, chunk.iter().position(Option::is_none)].into_iter().flatten().collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| chunk[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: &[Point], log: bool) -> String {
        let series = vec![Series { name: "a".into(), points: points.to_vec() }];
        LineChart { series, log_x: log, log_y: log, ..LineChart::default() }.figure()
    }

    fn count(html: &str, part: &str) -> usize {
        html.matches(part).count()
    }

    #[test]
    fn points_that_cannot_be_shown_break_the_line() {
        let points = [
            (1.0, 1.0),
            (2.0, 3.0),
            (3.0, f64::NAN),
            (4.0, 2.0),
            (5.0, f64::INFINITY),
            (6.0, 0.0),
            (7.0, 1.0),
        ];
        let html = figure(&points, false);
        let path = html.split("<path d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((count(path, "M"), count(path, "L"), count(&html, "<circle")), (3, 2, 1));
        let html = figure(&points, true);
        let path = html.split("<path d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((count(path, "M"), count(path, "L"), count(&html, "<circle")), (3, 1, 2));
    }

    #[test]
    fn few_points_or_none_are_fine() {
        assert!(figure(&[], false).contains("no data") && figure(&[(-1.0, 2.0)], true).contains("no data"));
        assert_eq!(count(&figure(&[(5.0, 5.0)], true), "<circle"), 1);
        assert!(!figure(&[(0.0, 3.0), (1.0, 3.0)], false).contains("NaN"));
        assert!(LineChart::default().figure().contains("no data"));
    }

    #[test]
    fn many_points_are_thinned_to_their_extremes() {
        let mut line: Vec<Option<Point>> = (0..50_000).map(|i| Some((i as f64, (i as f64).sin()))).collect();
        (line[7_003], line[31_999]) = (Some((7_003.0, -9.0)), Some((31_999.0, 9.0)));
        line[20_000..20_100].fill(None);
        let columns = [|point: Point| (point.0 / 50_000.0 * 300.0) as usize, |point: Point| point.0 as usize];
        for thin in columns.map(|column| thinned(&line, column)) {
            assert!((500..=900).contains(&thin.len()), "{}", thin.len());
            assert!(thin.contains(&line[7_003]) && thin.contains(&line[31_999]));
            assert!((1..=2).contains(&thin.iter().filter(|point| point.is_none()).count()));
            assert!(thin.iter().flatten().is_sorted_by(|a, b| a.0 < b.0));
        }
        assert_eq!(thinned(&line[..600], columns[0]), line[..600]);
    }
}
