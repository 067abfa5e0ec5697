//! Roles in certificates. A role counts only after the certificate is verified.

use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

/// The role of a certificate: the URI among its subject alternative names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// May attach to workers: `spiffe://flotilla/coordinator`.
    Coordinator,
    /// May serve coordinators: `spiffe://flotilla/worker`.
    Worker,
}

/// Reason that a certificate has no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// Not a DER X.509 certificate.
    #[error("it is no X.509 certificate")]
    Unreadable,
    /// None of its URIs is a role.
    #[error(
        "it names {found}, and neither spiffe://flotilla/coordinator nor spiffe://flotilla/worker; issue it with one \
         of them as a URI"
    )]
    None {
        /// Its URIs.
        found: String,
    },
    /// Both roles, which would allow a worker to command others.
    #[error("it names both spiffe://flotilla/coordinator and spiffe://flotilla/worker; issue one for each")]
    Both,
    /// The other role.
    #[error("it is a {found}'s, and a {expected}'s is needed: {}", .expected.uri())]
    Other {
        /// The actual role.
        found: Role,
        /// The expected role.
        expected: Role,
    },
}

impl Role {
    /// The role's URI.
    #[must_use]
    pub const fn uri(self) -> &'static str {
        match self {
            Self::Coordinator => "spiffe://flotilla/coordinator",
            Self::Worker => "spiffe://flotilla/worker",
        }
    }

    /// The peer's role.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Coordinator => Self::Worker,
            Self::Worker => Self::Coordinator,
        }
    }

    /// The role of a DER certificate.
    ///
    /// # Errors
    /// The certificate has no role or both.
    pub fn of(certificate: &[u8]) -> Result<Self, RoleError> {
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| RoleError::Unreadable)?;
        let names = certificate.subject_alternative_name().map_err(|_| RoleError::Unreadable)?;
        let names = names.map_or(&[][..], |names| &names.value.general_names);
        let uris: Vec<&str> =
            names.iter().filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None }).collect();
        let has = |role: Self| uris.contains(&role.uri());
        match (has(Self::Coordinator), has(Self::Worker)) {
            (true, false) => Ok(Self::Coordinator),
            (false, true) => Ok(Self::Worker),
            (true, true) => Err(RoleError::Both),
            (false, false) if uris.is_empty() => Err(RoleError::None { found: "no URI".to_owned() }),
            (false, false) => Err(RoleError::None { found: uris.join(", ") }),
        }
    }

    /// Checks that a DER certificate has this role.
    ///
    /// # Errors
    /// It does not.
    pub fn check(self, certificate: &[u8]) -> Result<(), RoleError> {
        match Self::of(certificate)? {
            found if found == self => Ok(()),
            found => Err(RoleError::Other { found, expected: self }),
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
        })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(names: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    fn uri(text: &str) -> SanType {
        SanType::URI(text.try_into().expect("ASCII"))
    }

    #[test]
    fn the_uri_says_the_role() {
        for role in [Role::Coordinator, Role::Worker] {
            let der = certificate(vec![uri("https://example.com"), uri(role.uri())]);
            assert_eq!(Role::of(&der), Ok(role));
            assert_eq!(role.check(&der), Ok(()));
            let other = RoleError::Other { found: role, expected: role.peer() };
            assert_eq!(role.peer().check(&der), Err(other));
        }
    }

    #[test]
    fn a_certificate_with_both_roles_has_none() {
        let der = certificate(vec![uri(Role::Worker.uri()), uri(Role::Coordinator.uri())]);
        assert_eq!(Role::of(&der), Err(RoleError::Both));
    }

    #[test]
    fn what_only_looks_like_a_role_is_none() {
        let uris = ["spiffe://flotilla/coordinator/", "spiffe://flotilla/Worker", "spiffe://other/flotilla/worker", ""];
        for text in uris {
            let error = Role::of(&certificate(vec![uri(text)])).expect_err(text);
            assert_eq!(error, RoleError::None { found: text.to_owned() });
        }
        let dns = SanType::DnsName("flotilla-coordinator".try_into().expect("ASCII"));
        let error = Role::of(&certificate(vec![dns])).expect_err("no URI");
        assert!(error.to_string().starts_with("it names no URI, and neither spiffe://flotilla/coordinator"), "{error}");
    }

    #[test]
    fn what_is_no_certificate_has_no_role() {
        assert_eq!(Role::of(b"no certificate"), Err(RoleError::Unreadable));
    }
}
