//! Rows of a row group that are selected.

use datafusion::parquet::arrow::arrow_reader::RowSelection;

/// Rows that both selections leave, all if neither is known; `None` if there are none.
pub(super) fn both(one: Option<RowSelection>, other: Option<RowSelection>) -> Option<Option<RowSelection>> {
    let rows = match (one, other) {
        (Some(one), Some(other)) => Some(one.intersection(&other)),
        (one, other) => one.or(other),
    };
    rows.as_ref().is_none_or(RowSelection::selects_any).then_some(rows)
}

/// Which row of the row group the one at some place among those that are selected is.
pub(super) fn row_at(selection: &RowSelection, mut place: usize) -> usize {
    let mut row = 0;
    for selector in selection.iter() {
        if !selector.skip {
            if place < selector.row_count {
                break;
            }
            place -= selector.row_count;
        }
        row += selector.row_count;
    }
    row + place
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::parquet::arrow::arrow_reader::RowSelector;

    #[test]
    fn places_among_selected_rows_are_rows() {
        let selectors = [(3, true), (2, false), (4, true), (1, false), (2, true)];
        let selector = |(row_count, skip)| RowSelector { row_count, skip };
        let selection = RowSelection::from(selectors.map(selector).to_vec());
        assert_eq!([0, 1, 2].map(|place| row_at(&selection, place)), [3, 4, 9]);
    }
}
