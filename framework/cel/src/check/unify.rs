//! Type unification.

use crate::types::Type;

#[derive(Clone, Debug, Default)]
pub(super) struct Unifier {
    found: Vec<Option<Type>>,
}

impl Unifier {
    pub(super) fn variable(&mut self) -> Type {
        self.found.push(None);
        Type::Var(self.found.len() - 1)
    }

    fn find(&self, variable: usize) -> Option<&Type> {
        self.found.get(variable).and_then(Option::as_ref)
    }

    /// Substitutes all type variables. With `unknown_to_dyn`, unbound ones become `dyn`.
    pub(super) fn resolve(&self, of: &Type, unknown_to_dyn: bool) -> Type {
        match of {
            Type::Var(variable) => match self.find(*variable) {
                Some(found) => self.resolve(found, unknown_to_dyn),
                None if unknown_to_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::Param(_) if unknown_to_dyn => Type::Dyn,
            other => other.with(&mut |parameter| self.resolve(parameter, unknown_to_dyn)),
        }
    }

    /// Whether the types are pairwise compatible. Keeps new substitutions only on success.
    pub(super) fn fit_all(&mut self, left: &[Type], right: &[Type]) -> bool {
        let mut attempt = self.clone();
        let fits = attempt.assign_all(&left.iter().collect::<Vec<_>>(), &right.iter().collect::<Vec<_>>());
        if fits {
            *self = attempt;
        }
        fits
    }

    pub(super) fn fit(&mut self, left: &Type, right: &Type) -> bool {
        self.fit_all(std::slice::from_ref(left), std::slice::from_ref(right))
    }

    fn assign_all(&mut self, left: &[&Type], right: &[&Type]) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.assign(left, right))
    }

    fn assign(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Var(variable) = right {
            let (fits, was_known) = self.substitute(*variable, left);
            if fits || was_known {
                return fits;
            }
        }
        if let Type::Var(variable) = left {
            return self.substitute(*variable, right).0;
        }
        if left.is_dyn_or_error() || right.is_dyn_or_error() {
            return true;
        }
        match (left, right) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(other, Type::Null | Type::Opaque(..) | Type::Struct(_) | Type::Duration | Type::Timestamp)
            }
            (Type::Of(_), Type::Of(_)) => true,
            (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) | (Type::Opaque(..), Type::Opaque(..)) => {
                left.name() == right.name() && self.assign_all(&left.parameters(), &right.parameters())
            }
            _ => left == right,
        }
    }

    /// Whether a type variable may be another type, and whether it already had a substitution.
    fn substitute(&mut self, variable: usize, other: &Type) -> (bool, bool) {
        let itself = Type::Var(variable);
        if *other == itself {
            return (true, true);
        }
        if let Some(known) = self.find(variable).cloned() {
            if known == *other {
                return (true, true);
            }
            if !self.assign(other, &known) {
                return (false, true);
            }
            let general = most_general(other, &known);
            if !self.mentions(&itself, &general) {
                self.found[variable] = Some(general);
            }
            return (true, true);
        }
        if self.mentions(&itself, other) {
            return (false, false);
        }
        self.found[variable] = Some(other.clone());
        (true, false)
    }

    fn mentions(&self, sought: &Type, within: &Type) -> bool {
        if sought == within {
            return true;
        }
        match within {
            Type::Var(variable) => self.find(*variable).is_some_and(|found| self.mentions(sought, &found.clone())),
            other => other.parameters().into_iter().any(|parameter| self.mentions(sought, parameter)),
        }
    }
}

/// The more general of two compatible types.
pub(super) fn most_general(left: &Type, right: &Type) -> Type {
    if is_as_general(left, right) { left.clone() } else { right.clone() }
}

fn is_as_general(left: &Type, right: &Type) -> bool {
    if matches!(left, Type::Dyn | Type::Var(_)) {
        return true;
    }
    match (left, right) {
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::Of(_), Type::Of(_)) => true,
        (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) | (Type::Opaque(..), Type::Opaque(..)) => {
            let (left_parameters, right_parameters) = (left.parameters(), right.parameters());
            left.name() == right.name()
                && left_parameters.len() == right_parameters.len()
                && left_parameters.iter().zip(right_parameters).all(|(left, right)| is_as_general(left, right))
        }
        _ => left == right,
    }
}
