//! Core: what a template may not say, so that no value of it becomes large.
//!
//! The engine pays with its steps for each byte that it makes. But a list of lists is small, however
//! long it is as a text or in a comparison: `[a, a]` forty times over is longer than any memory. So how
//! often values can stand in a list is counted before anything is rendered.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Error;
use minijinja::machinery::ast::{BinOpKind, Call, CallArg, Expr, Filter, Macro, Stmt, UnaryOpKind};
use minijinja::machinery::parse;

use super::TemplateError;

/// How many values that are no literals one value may hold: a list that names each card of a host.
const HELD_MAX: usize = 32;
/// Filters that give numbers.
const NUMBERS: &[&str] = &["abs", "count", "float", "int", "length", "round"];

/// Refuses a template with a value that could become large. Gives the places of the lists that variables
/// are set to.
pub(super) fn check(text: &str) -> Result<BTreeSet<(usize, usize)>, TemplateError> {
    let syntax =
        |error: &Error| TemplateError { line: error.line().unwrap_or(1), why: super::told(error) };
    let template = parse(text, "template", Default::default()).map_err(|error| syntax(&error))?;
    // The first time finds the macros, which may be called before they stand there.
    let mut held = Held::default();
    held.statement(&template)?;
    let mut held = Held { macros: held.macros, ..Held::default() };
    held.statement(&template)?;
    Ok(held.lists)
}

#[derive(Default)]
struct Held<'t> {
    /// How many values each variable holds at most.
    variables: BTreeMap<&'t str, usize>,
    macros: BTreeSet<&'t str>,
    /// The places of the lists that a variable is set to.
    lists: BTreeSet<(usize, usize)>,
}

fn refused(at: &Expr<'_>, why: impl Into<String>) -> TemplateError {
    TemplateError { line: at.span().start_line.into(), why: why.into() }
}

impl<'t> Held<'t> {
    fn statements(&mut self, all: &[Stmt<'t>]) -> Result<(), TemplateError> {
        all.iter().try_for_each(|one| self.statement(one))
    }

    fn statement(&mut self, statement: &Stmt<'t>) -> Result<(), TemplateError> {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr).map(drop),
            Stmt::EmitRaw(_) => Ok(()),
            Stmt::ForLoop(each) => {
                if each.recursive {
                    return Err(refused(&each.iter, "a loop may not call itself"));
                }
                let held = self.expression(&each.iter)?;
                self.assign(&each.target, held)?;
                let outer = self.variables.get("loop").copied().unwrap_or_default();
                self.variables.insert("loop", held.max(outer));
                each.filter_expr.iter().try_for_each(|one| self.expression(one).map(drop))?;
                self.statements(&each.body)?;
                let before = self.variables.clone();
                self.statements(&each.body)?;
                if self.variables != before {
                    return Err(refused(
                        &each.iter,
                        "a variable grows with each turn of this loop",
                    ));
                }
                self.statements(&each.else_body)
            }
            Stmt::IfCond(either) => {
                self.expression(&either.expr)?;
                self.statements(&either.true_body)?;
                self.statements(&either.false_body)
            }
            Stmt::WithBlock(with) => {
                for (target, value) in &with.assignments {
                    let held = self.expression(value)?;
                    self.assign(target, held)?;
                }
                self.statements(&with.body)
            }
            Stmt::Set(set) => {
                if let Expr::List(list) = &set.expr {
                    let span = list.span();
                    let offset = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
                    self.lists.insert((offset(span.start_offset), offset(span.end_offset)));
                }
                let held = self.expression(&set.expr)?;
                self.assign(&set.target, held)
            }
            Stmt::SetBlock(set) => {
                self.statements(&set.body)?;
                let held = set.filter.as_ref().map(|filter| self.expression(filter)).transpose()?;
                self.assign(&set.target, held.unwrap_or(1))
            }
            Stmt::AutoEscape(block) => self.statements(&block.body),
            Stmt::FilterBlock(block) => {
                self.expression(&block.filter)?;
                self.statements(&block.body)
            }
            Stmt::Macro(one) => self.macro_body(one),
            Stmt::CallBlock(block) => {
                Err(refused(&block.call.expr, "blocks of `call` are not there; call the macro"))
            }
            Stmt::Do(call) => self.call(&call.call).map(drop),
        }
    }

    /// A macro may call itself: what it is given holds no more at each call.
    fn macro_body(&mut self, one: &Macro<'t>) -> Result<(), TemplateError> {
        self.macros.insert(one.name);
        self.one_each(&one.defaults)?;
        let outer = self.variables.clone();
        for argument in &one.args {
            if let Expr::Var(name) = argument {
                self.variables.insert(name.id, 1);
            }
        }
        self.statements(&one.body)?;
        self.variables = outer;
        Ok(())
    }

    /// A call of a macro gives a text; other functions and methods what they are given.
    fn call(&self, call: &Call<'t>) -> Result<usize, TemplateError> {
        match &call.expr {
            Expr::Var(name) if self.macros.contains(name.id) => {
                self.one_each(call.args.iter().map(value_of))?;
                Ok(1)
            }
            other => Ok(self.expression(other)?.max(self.arguments(&call.args)?)),
        }
    }

    fn one_each<'e>(&self, all: impl IntoIterator<Item = &'e Expr<'t>>) -> Result<(), TemplateError>
    where
        't: 'e,
    {
        for one in all {
            if self.expression(one)? > 1 {
                return Err(refused(one, "a macro takes values that hold one variable"));
            }
        }
        Ok(())
    }

    fn assign(&mut self, target: &Expr<'t>, held: usize) -> Result<(), TemplateError> {
        match target {
            Expr::Var(name) => {
                let most = self.variables.entry(name.id).or_default();
                *most = held.max(*most);
                Ok(())
            }
            Expr::List(list) => list.items.iter().try_for_each(|one| self.assign(one, held)),
            Expr::Tuple(list) => list.items.iter().try_for_each(|one| self.assign(one, held)),
            other => Err(refused(other, "only a variable is set")),
        }
    }

    /// How many values that are no literals it holds at most.
    fn expression(&self, expr: &Expr<'t>) -> Result<usize, TemplateError> {
        let held = match expr {
            Expr::Const(_) => 0,
            Expr::Var(name) if self.macros.contains(name.id) => {
                return Err(refused(expr, "a macro is called; it is no value"));
            }
            Expr::Var(name) => self.variables.get(name.id).copied().unwrap_or(1),
            Expr::Slice(slice) => {
                let limits = [&slice.start, &slice.stop, &slice.step];
                limits.into_iter().flatten().try_for_each(|one| self.expression(one).map(drop))?;
                self.expression(&slice.expr)?
            }
            Expr::UnaryOp(unary) => self.expression(&unary.expr)?.min(1),
            Expr::BinOp(binary) => {
                let (left, right) =
                    (self.expression(&binary.left)?, self.expression(&binary.right)?);
                match binary.op {
                    BinOpKind::Mul if !(is_number(&binary.left) && is_number(&binary.right)) => {
                        let why = "`*` multiplies numbers alone: write `(a | int) * (b | int)`";
                        return Err(refused(expr, why));
                    }
                    BinOpKind::Add => left + right,
                    BinOpKind::ScAnd | BinOpKind::ScOr => left.max(right),
                    _ => 1,
                }
            }
            Expr::Compare(compare) => {
                self.expression(&compare.expr)?;
                self.sum(compare.ops.iter().map(|one| &one.expr))?.min(1)
            }
            Expr::IfExpr(either) => {
                self.expression(&either.test_expr)?;
                let no = either.false_expr.as_ref().map(|no| self.expression(no)).transpose()?;
                self.expression(&either.true_expr)?.max(no.unwrap_or_default())
            }
            Expr::Filter(filter) => self.filter(expr, filter)?,
            Expr::Test(test) => {
                self.expression(&test.expr)?;
                self.arguments(&test.args)?.min(1)
            }
            Expr::GetAttr(get) => self.expression(&get.expr)?,
            Expr::GetItem(get) => {
                self.expression(&get.subscript_expr)?;
                self.expression(&get.expr)?
            }
            Expr::Call(call) => self.call(call)?,
            Expr::List(list) => self.sum(&list.items)?,
            Expr::Tuple(list) => self.sum(&list.items)?,
            Expr::Map(map) => self.sum(map.keys.iter().chain(&map.values))?,
        };
        if held > HELD_MAX {
            let why = format!("this holds {held} variables; a value may hold {HELD_MAX}");
            return Err(refused(expr, why));
        }
        Ok(held)
    }

    fn filter(&self, expr: &Expr<'t>, filter: &Filter<'t>) -> Result<usize, TemplateError> {
        let arguments = self.arguments(&filter.args)?;
        // It gives its default in place of each item.
        if filter.name == "map" && arguments > 0 {
            return Err(refused(expr, "`map` takes literals alone"));
        }
        let given = filter.expr.as_ref().map(|given| self.expression(given)).transpose()?;
        Ok(given.unwrap_or(1) + arguments)
    }

    fn arguments(&self, all: &[CallArg<'t>]) -> Result<usize, TemplateError> {
        self.sum(all.iter().map(value_of))
    }

    fn sum<'e>(&self, all: impl IntoIterator<Item = &'e Expr<'t>>) -> Result<usize, TemplateError>
    where
        't: 'e,
    {
        all.into_iter().try_fold(0, |sum, one| Ok(sum + self.expression(one)?))
    }
}

fn value_of<'a, 't>(argument: &'a CallArg<'t>) -> &'a Expr<'t> {
    match argument {
        CallArg::Pos(one)
        | CallArg::Kwarg(_, one)
        | CallArg::PosSplat(one)
        | CallArg::KwargSplat(one) => one,
    }
}

/// Whether an expression is a number for certain.
fn is_number(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Const(constant) => constant.value.is_number(),
        Expr::UnaryOp(unary) => matches!(unary.op, UnaryOpKind::Neg) && is_number(&unary.expr),
        Expr::BinOp(binary) => match binary.op {
            BinOpKind::Add => is_number(&binary.left) && is_number(&binary.right),
            // A product was looked at for itself.
            BinOpKind::Sub
            | BinOpKind::Mul
            | BinOpKind::Div
            | BinOpKind::FloorDiv
            | BinOpKind::Rem
            | BinOpKind::Pow => true,
            _ => false,
        },
        Expr::Filter(filter) => NUMBERS.contains(&filter.name),
        _ => false,
    }
}
