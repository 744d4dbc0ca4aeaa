//! Documentation that `SHOW FUNCTIONS` prints, and signatures that make it do so.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{DocSection, Documentation, Signature, TypeSignature, Volatility};

const SECTION: DocSection = DocSection {
    include: true,
    label: "Sparse Coding Functions",
    description: Some("Train dictionaries, encode vectors as sparse codes and decode them back."),
};

/// Documentation from a description, a syntax line, an example and the arguments.
pub(super) fn document(
    description: &str,
    syntax: &str,
    example: &str,
    arguments: &[(&str, &str)],
) -> Documentation {
    let builder = Documentation::builder(SECTION, description, syntax)
        .with_sql_example(format!("```sql\n{example}\n```"));
    arguments.iter().fold(builder, |builder, (name, text)| builder.with_argument(*name, *text)).build()
}

/// Takes as many arguments as `arities` lists, of any type: functions check types themselves, with
/// better errors. `example` is what `SHOW FUNCTIONS` prints.
pub(super) fn signature(example: Vec<DataType>, arities: &[usize]) -> Signature {
    let any = arities.iter().map(|count| TypeSignature::Any(*count));
    let all = std::iter::once(TypeSignature::Exact(example)).chain(any);
    Signature::one_of(all.collect(), Volatility::Immutable)
}
