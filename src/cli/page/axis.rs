//! Axes with round ticks, and the frame that two of them make around the marks of a chart.
//!
//! Only numbers are drawn as text inside the SVG, so that their widths can be told in advance. Titles are
//! HTML around it, where the browser breaks long lines.

use super::escaped;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 310.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 26.0;
const RIGHT: f64 = WIDTH - 14.0;
/// Space between the ends of the x axis and the outermost marks.
const INSET: f64 = 8.0;
/// A little more than a digit takes in the font size of the style sheet.
const DIGIT_WIDTH: f64 = 7.6;

/// The part of the number line that a chart shows.
#[derive(Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    most_ticks: i32,
    least_step: f64,
}

/// Whether an axis can show the value. The outermost magnitudes are left out, as spans of them overflow.
pub(super) fn fits(value: f64, log: bool) -> bool {
    if log { (1e-300..1e300).contains(&value) } else { value.abs() < 1e300 }
}

impl Axis {
    /// An axis as wide as the values, all of which fit it.
    pub fn new(values: impl Iterator<Item = f64>, log: bool, most_ticks: i32) -> Self {
        let wider = |(low, high): (f64, f64), value| (low.min(value), high.max(value));
        let (mut low, mut high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), wider);
        let largest = low.abs().max(high.abs());
        if low > high {
            (low, high) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        } else if high - low <= largest * 1e-9 || largest < 1e-290 {
            let margin = if largest < 1e-290 { 1.0 } else { largest * 0.1 };
            (low, high) = if log { (low / 2.0, high * 2.0) } else { (low - margin, high + margin) };
        }
        Self { low, high, log, most_ticks, least_step: 0.0 }
    }

    /// Has ticks at whole numbers only.
    pub fn whole(self) -> Self {
        Self { least_step: 1.0, ..self }
    }

    /// Moves both ends outwards to round numbers.
    pub fn rounded_out(mut self) -> Self {
        if self.log {
            let round = one_two_five(self.low, self.high * 10.0);
            let (least, most) = (self.high * (1.0 - 1e-11), self.low * (1.0 + 1e-11));
            self.low = round.iter().copied().rfind(|&tick| tick <= most).unwrap_or(self.low);
            self.high = round.iter().copied().find(|&tick| tick >= least).unwrap_or(self.high);
        } else {
            let step = self.step();
            self.low = (self.low / step + 1e-6).floor() * step;
            self.high = (self.high / step - 1e-6).ceil() * step;
        }
        self
    }

    /// Where the value lies between the low end, 0, and the high end, 1.
    pub fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log { value.ln() } else { value };
        (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
    }

    /// The least of 1, 2 and 5 times a power of ten that makes no more steps than ticks allowed.
    fn step(&self) -> f64 {
        let least = (self.high - self.low) / f64::from(self.most_ticks);
        let power = 10f64.powi(decade(least));
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
        self.least_step.max(factor.unwrap_or(10.0) * power)
    }

    /// Round numbers of the axis. A logarithmic axis has decades, or finer ticks where those are too few.
    fn ticks(&self) -> Vec<f64> {
        if !self.log {
            return self.steps();
        }
        let within = |tick: &f64| (-1e-6..=1.0 + 1e-6).contains(&self.place(*tick));
        let (first, last) = (decade(self.low), decade(self.high));
        let stride = (last - first - 1) / self.most_ticks + 1;
        let powers = (first..=last).filter(|power| power % stride == 0);
        let decades = powers.map(|power| 10f64.powi(power)).filter(within).collect();
        let finer = one_two_five(self.low, self.high).into_iter().filter(within).collect();
        [decades, finer].into_iter().find(|ticks: &Vec<f64>| ticks.len() > 2).unwrap_or_else(|| self.steps())
    }

    /// The multiples of the step on the axis.
    fn steps(&self) -> Vec<f64> {
        let step = self.step();
        let first = (self.low / step - 1e-6).ceil() as i64;
        let last = (self.high / step + 1e-6).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }

    /// The ticks as texts. Where some are too large or too small to be written out, a logarithmic axis gives
    /// all as powers of ten, and a linear one as multiples of the same power if that is shorter.
    fn labels(&self) -> Vec<(f64, String)> {
        let ticks = self.ticks();
        let texts = |exponent: &dyn Fn(f64) -> i32| -> Vec<String> {
            ticks.iter().map(|&tick| scaled(tick, exponent(tick), 12)).collect()
        };
        let largest = ticks.iter().fold(0f64, |largest, tick| largest.max(tick.abs()));
        let texts = if self.log && !ticks.iter().all(|&tick| is_plain(tick)) {
            texts(&decade)
        } else if self.log || is_plain(largest) {
            texts(&|_| 0)
        } else {
            let (plain, power) = (texts(&|_| 0), texts(&|_| decade(largest)));
            if widest(&plain) < widest(&power) { plain } else { power }
        };
        ticks.into_iter().zip(texts).collect()
    }
}

/// 1, 2 and 5 times the powers of ten from the one at or below `low` to the one at or below `high`.
fn one_two_five(low: f64, high: f64) -> Vec<f64> {
    let powers = (decade(low)..=decade(high)).map(|power| 10f64.powi(power));
    powers.flat_map(|power| [power, 2.0 * power, 5.0 * power]).collect()
}

/// The power of ten at or below the size of the value. Printing rounds correctly where a logarithm may not.
fn decade(value: f64) -> i32 {
    format!("{value:.11e}").rsplit_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0)
}

fn is_plain(value: f64) -> bool {
    value == 0.0 || (1e-4..1e6).contains(&value.abs())
}

/// A number as people write it, good to six figures.
pub(super) fn number(value: f64) -> String {
    scaled(value, if is_plain(value) { 0 } else { decade(value) }, 6)
}

/// A number as a multiple of a power of ten, without zeros at its end.
fn scaled(value: f64, exponent: i32, figures: i32) -> String {
    let decimals = (figures - 1 - decade(value) + exponent).max(1) as usize;
    let text = format!("{:.decimals$}", value / 10f64.powi(exponent) + 0.0);
    let text = text.trim_end_matches('0').trim_end_matches('.').replace('-', "−");
    if exponent == 0 || value == 0.0 {
        return text;
    }
    let superscript =
        |sign: char| "-0123456789".chars().zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹".chars()).find(|pair| pair.0 == sign);
    let power: String = exponent.to_string().chars().filter_map(superscript).map(|pair| pair.1).collect();
    if text == "1" { format!("10{power}") } else { format!("{text}×10{power}") }
}

fn widest<'a>(texts: impl IntoIterator<Item = &'a String>) -> f64 {
    texts.into_iter().map(|text| width(text)).fold(0.0, f64::max)
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * DIGIT_WIDTH
}

/// Two axes laid out on the drawing.
#[derive(Debug)]
pub(super) struct Frame {
    x: Axis,
    y: Axis,
    left: f64,
}

impl Frame {
    pub fn new(x: Axis, y: Axis) -> Self {
        let left = widest(y.labels().iter().map(|(_, text)| text)) + 12.0;
        Self { x, y, left }
    }

    /// Where a point lies on the drawing.
    pub fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (start, end) = (self.left + INSET, RIGHT - INSET);
        (start + self.x.place(x) * (end - start), BOTTOM - self.y.place(y) * (BOTTOM - TOP))
    }

    /// The chart with its marks, titles and legend. Without marks it says that there is nothing to show.
    pub fn figure(&self, [title, x_label, y_label]: [&str; 3], marks: &str, legend: &str) -> String {
        let [title, x_label, y_label] = [title, x_label, y_label].map(escaped);
        let (middle, centre) = ((self.left + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        let nothing = format!("<text class=\"nothing\" x=\"{middle:.1}\" y=\"{centre:.1}\">no data</text>\n");
        let (marks, grid) = (if marks.is_empty() { &nothing } else { marks }, self.grid());
        format!(
            "<figure>\n<figcaption>{title}</figcaption>\n<div class=\"y-label\">{y_label}</div>\n\
             <svg role=\"img\" viewBox=\"0 0 {WIDTH} {HEIGHT}\"><title>{title}</title>\n{grid}{marks}</svg>\n\
             <div class=\"x-label\">{x_label}</div>\n{legend}</figure>\n"
        )
    }

    /// Lines and labels at the ticks. A label that would touch the one before it is left out.
    fn grid(&self) -> String {
        let (mut out, left) = (String::new(), self.left);
        for (tick, text) in self.y.labels() {
            let (_, y) = self.place((0.0, tick));
            let (text_x, text_y) = (left - 7.0, y + 4.5);
            out += &format!("<path class=\"grid\" d=\"M{left:.1} {y:.1}H{RIGHT}\"/>");
            out += &format!("<text class=\"y\" x=\"{text_x:.1}\" y=\"{text_y:.1}\">{text}</text>\n");
        }
        let mut taken = 0.0;
        for (tick, text) in self.x.labels() {
            let (x, _) = self.place((tick, 0.0));
            let half = width(&text) / 2.0;
            let centre = x.min(WIDTH - half).max(half);
            out += &format!("<path class=\"axis\" d=\"M{x:.1} {BOTTOM}v5\"/>");
            if centre - half >= taken {
                let text_y = BOTTOM + 20.0;
                out += &format!("<text class=\"x\" x=\"{centre:.1}\" y=\"{text_y}\">{text}</text>\n");
                taken = centre + half + DIGIT_WIDTH;
            }
        }
        out + &format!("<path class=\"axis\" d=\"M{left:.1} {BOTTOM}H{RIGHT}\"/>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], log: bool, most_ticks: i32) -> String {
        let labels = Axis::new(values.iter().copied(), log, most_ticks).labels();
        labels.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(labels(&[0.0, 0.97], false, 6), "0 0.2 0.4 0.6 0.8");
        assert_eq!(labels(&[-3.0, 12.0], false, 6), "0 5 10");
        assert_eq!(labels(&[0.0, 0.3], false, 3), "0 0.1 0.2 0.3");
        assert_eq!(labels(&[0.0, 2e6], false, 4), "0 0.5×10⁶ 10⁶ 1.5×10⁶ 2×10⁶");
        assert_eq!(labels(&[-3e-7, 3e-7], false, 3), "−2×10⁻⁷ 0 2×10⁻⁷");
        assert_eq!(labels(&[1e6, 1e6 + 0.5], false, 2), "1000000 1000000.5");
        assert_eq!(labels(&[7.0], false, 3), "6.5 7 7.5");
        assert_eq!(labels(&[], false, 2), "0 0.5 1");
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_finer() {
        assert_eq!(labels(&[0.01, 3000.0], true, 9), "0.01 0.1 1 10 100 1000");
        assert_eq!(labels(&[1e-9, 1e3], true, 6), "10⁻⁸ 10⁻⁶ 10⁻⁴ 10⁻² 1 10²");
        assert_eq!(labels(&[0.06, 9.0], true, 6), "0.1 0.2 0.5 1 2 5");
        assert_eq!(labels(&[0.3, 20.0], true, 6), "0.5 1 2 5 10 20");
        assert_eq!(labels(&[3.0, 4.0], true, 5), "3 3.2 3.4 3.6 3.8 4");
    }

    #[test]
    fn ends_are_rounded_out() {
        let ends = |values: [f64; 2], log| {
            let axis = Axis::new(values.into_iter(), log, 6).rounded_out();
            [axis.low, axis.high].map(number)
        };
        assert_eq!(ends([0.12, 0.97], false), ["0", "1"]);
        assert_eq!(ends([0.2, 0.8], false), ["0.2", "0.8"]);
        assert_eq!(ends([0.0012, 0.5], true), ["0.001", "0.5"]);
        assert_eq!(ends([3e7, 9e9], true), ["2×10⁷", "10¹⁰"]);
    }

    #[test]
    fn labels_keep_apart_and_inside() {
        let extremes =
            [-9e299, -1e9, -1.0, -1e-300, 0.0, 1e-320, 2e-300, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 1e9, 9e299];
        for (low, high) in extremes.iter().flat_map(|&low| extremes.map(|high| (low, high))) {
            for log in [false, true].into_iter().filter(|&log| fits(low, log) && fits(high, log)) {
                let axis = || Axis::new([low, high].into_iter(), log, 7);
                let grid = Frame::new(axis(), axis().rounded_out()).grid();
                let mut taken = 0.0;
                for label in grid.split("<text class=\"x\" x=\"").skip(1) {
                    let (centre, rest) = label.split_once('"').unwrap();
                    let text = rest.split(['>', '<']).nth(1).unwrap();
                    let (centre, half) = (centre.parse::<f64>().unwrap(), width(text) / 2.0);
                    assert!(
                        centre - half > taken - 0.1 && centre + half < WIDTH + 0.1,
                        "{low} {high}: {grid}"
                    );
                    taken = centre + half;
                }
                assert!(
                    grid.matches("class=\"y\"").count() >= 2 && !grid.contains("NaN"),
                    "{low} {high}: {grid}"
                );
            }
        }
    }
}
