//! One HTML page that needs nothing else: style and charts are inside it, and it runs no script.
//!
//! The page is a grid of blocks, one below the other; charts added in a row stand side by side where the
//! window is wide enough.

mod axis;
mod bar_chart;
mod line_chart;

pub(in crate::cli) use bar_chart::BarChart;
pub(in crate::cli) use line_chart::{LineChart, Series};

/// A page under construction; blocks appear in the order they were added.
#[derive(Debug)]
pub(in crate::cli) struct Page {
    title: String,
    body: String,
}

impl Page {
    pub fn new(title: &str) -> Self {
        let title = escaped(title);
        Self { body: format!("<h1>{title}</h1>\n"), title }
    }

    pub fn heading(&mut self, text: &str) {
        self.body += &format!("<h2>{}</h2>\n", escaped(text));
    }

    pub fn paragraph(&mut self, text: &str) {
        self.body += &format!("<p>{}</p>\n", escaped(text));
    }

    /// A command as it is typed.
    pub fn command(&mut self, text: &str) {
        self.body += &format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escaped(text));
    }

    /// A table that scrolls in its own box; columns of numbers are aligned right.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        let numeric: Vec<bool> = (0..header.len()).map(|column| is_numeric(rows, column)).collect();
        let cell = |tag: &str, column: usize, text: &str| {
            let class = if numeric.get(column) == Some(&true) { " class=\"number\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(text))
        };
        self.body += "<div class=\"table\" tabindex=\"0\"><table>\n<thead><tr>";
        self.body.extend(header.iter().enumerate().map(|(column, text)| cell("th", column, text)));
        self.body += "</tr></thead>\n<tbody>\n";
        for row in rows {
            self.body += "<tr>";
            self.body.extend(row.iter().enumerate().map(|(column, text)| cell("td", column, text)));
            self.body += "</tr>\n";
        }
        self.body += "</tbody>\n</table></div>\n";
    }

    pub fn line_chart(&mut self, chart: &LineChart) {
        self.body += &chart.figure();
    }

    pub fn bar_chart(&mut self, chart: &BarChart) {
        self.body += &chart.figure();
    }

    pub fn render(self) -> String {
        let (title, style, body) = (self.title, include_str!("page.css"), self.body);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{style}</style>\n</head>\n\
             <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
        )
    }
}

/// Whether a column holds numbers, with or without a unit, and nothing else but gaps.
fn is_numeric(rows: &[Vec<String>], column: usize) -> bool {
    let is_gap = |text: &str| matches!(text, "" | "-" | "–" | "—");
    let is_number = |text: &str| {
        // A spread does not make a number less of one.
        let text = text.split('±').next().unwrap_or(text);
        let bare = text.replace([',', '_', ' '], "").replace('−', "-");
        let without_unit = bare.trim_end_matches(|c: char| c.is_alphabetic() || "%×/²".contains(c));
        bare.parse::<f64>().or_else(|_| without_unit.parse::<f64>()).is_ok()
    };
    let cells = rows.iter().filter_map(|row| row.get(column)).map(|text| text.trim());
    let mut cells = cells.filter(|text| !is_gap(text)).peekable();
    cells.peek().is_some() && cells.all(is_number)
}

/// Text that means itself in HTML, between tags and inside quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_escaped() {
        let bad = "<b>&\"'";
        let mut page = Page::new(bad);
        page.heading(bad);
        page.paragraph(bad);
        page.command(bad);
        page.table(&[bad], &[vec![bad.into()]]);
        let series = vec![Series { name: bad.into(), points: vec![(1.0, 2.0)] }];
        let [title, x_label, y_label] = [bad, bad, bad].map(String::from);
        page.line_chart(&LineChart { title, x_label, y_label, series, ..LineChart::default() });
        let [title, x_label, y_label] = [bad, bad, bad].map(String::from);
        page.bar_chart(&BarChart { title, x_label, y_label, bars: vec![1.0] });
        let html = page.render();
        assert!(!html.contains("<b>") && !html.contains("&\""));
        assert_eq!(html.matches("&lt;b&gt;&amp;&quot;&#39;").count(), 18);
        assert!(!html.contains("//"), "no address of anything outside the page");
    }

    #[test]
    fn columns_of_numbers_are_aligned_right() {
        let rows = [["a", "1,204", "2 kB", "2026-01-02"], ["7", "–", "-0.5e3", "3"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(String::from).to_vec()).collect();
        let numeric: Vec<bool> = (0..5).map(|column| is_numeric(&rows, column)).collect();
        assert_eq!(numeric, [false, true, true, false, false]);
    }
}
