//! How deep statements are, told from their tokens.
//!
//! `1 + 1 + 1` is a sum of a sum, and many parts of a planner walk down such trees by recursion: a long enough chain would
//! use up the stack, which ends the process. So it is refused before anything is made of it.

use anyhow::{Result, bail};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The deepest statement that is run. The stack of a statement's thread holds several of them.
pub(super) const MOST: usize = 2000;

/// Refuses a script that has a statement which is too deep.
pub(super) fn check_depth(tokens: &[TokenWithSpan]) -> Result<()> {
    let statements = tokens.split(|token| token.token == Token::SemiColon);
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let has_more_than_space = |tokens: &&[TokenWithSpan]| !tokens.iter().all(is_space);
    for (n, statement) in statements.filter(has_more_than_space).enumerate() {
        let found = depth(statement);
        if found > MOST {
            bail!(
                "statement {}: {found} operators are chained or nested in each other, and {MOST} are the most; use IN (...), or \
                 join a table of the values",
                n + 1
            );
        }
    }
    Ok(())
}

/// What is between two brackets.
#[derive(Default)]
struct Level {
    /// Operators since the last comma.
    chained: usize,
    /// The deepest bracket since then.
    inner: usize,
    /// The deepest of what commas have ended.
    deepest: usize,
}

impl Level {
    fn end_of_part(&mut self) {
        self.deepest = self.deepest.max(self.chained + self.inner);
        (self.chained, self.inner) = (0, 0);
    }
}

/// At most so many expressions and queries are inside each other.
fn depth(tokens: &[TokenWithSpan]) -> usize {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let close = |level: &mut Level, outer: &mut Vec<Level>| {
        level.end_of_part();
        let deepest = level.deepest;
        // A bracket too many is an error of the parser's.
        *level = outer.pop().unwrap_or_default();
        level.inner = level.inner.max(deepest + 1);
    };
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBrace => outer.push(std::mem::take(&mut level)),
            Token::LBracket => {
                // `v[1][1]` is an element of an element.
                level.chained += 1;
                outer.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut level, &mut outer),
            Token::Comma => level.end_of_part(),
            token if is_operator(token) => level.chained += 1,
            _ => {}
        }
    }
    while !outer.is_empty() {
        close(&mut level, &mut outer);
    }
    level.end_of_part();
    level.deepest
}

fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::XOR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::IN
                | Keyword::AT
                | Keyword::COLLATE
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
        ),
        Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::Eq
        | Token::DoubleEq
        | Token::Neq
        | Token::Lt
        | Token::Gt
        | Token::LtEq
        | Token::GtEq
        | Token::Spaceship
        | Token::DoubleColon
        | Token::Ampersand
        | Token::Pipe
        | Token::Caret
        | Token::Tilde
        | Token::Sharp
        | Token::ShiftLeft
        | Token::ShiftRight
        | Token::Arrow
        | Token::LongArrow => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn depth_of(sql: &str) -> usize {
        depth(&Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().expect("tokens"))
    }

    #[test]
    fn chains_and_brackets_are_deep_and_lists_are_not() {
        assert_eq!(depth_of("SELECT 1"), 0);
        assert_eq!(depth_of("SELECT 1 + 1 + 1, 2 + 2"), 2);
        assert_eq!(depth_of("SELECT (1 + (2 + 3)) * 4"), 5);
        assert_eq!(depth_of("SELECT * FROM t WHERE a IN (1, 2, 3, 4, 5, 6, 7, 8)"), 3);
        let terms = |term: &str, between: &str| vec![term; 3000].join(between);
        assert!(depth_of(&format!("SELECT {}", terms("1", " + "))) >= 2999);
        assert!(depth_of(&terms("SELECT 1", " UNION ALL ")) >= 2999);
        assert!(depth_of(&format!("SELECT {}1", "- ".repeat(3000))) >= 3000);
        assert!(depth_of(&format!("VALUES {}", terms("(-1, 2 + 3)", ", "))) < 5);
        assert!(depth_of(&format!("SELECT {}", "(".repeat(3000))) >= 2999);
        assert!(depth_of(&format!("SELECT {}", ")".repeat(3000))) <= 3000);
    }
}
