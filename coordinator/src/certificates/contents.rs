//! The contents of the two Secrets, current and due.

use std::collections::BTreeMap;

use flotilla_transport::{Authority, Identity, IssueError, Pem, Role, Validity, authorities, is_due, is_of_the_future};
use k8s_openapi::ByteString;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";
const PREVIOUS_CERTIFICATE: &str = "previous.crt";
const PREVIOUS_KEY: &str = "previous.key";

type Data = BTreeMap<String, ByteString>;

/// The trusted authorities, the newest first: one, or two during a rotation.
#[derive(Debug, Default)]
pub(super) struct Authorities {
    trusted: Vec<Authority>,
    signer: usize,
}

impl Authorities {
    pub(super) fn read(data: &Data) -> Result<Self, IssueError> {
        let pair = |certificate: &str, key: &str| match (data.get(certificate), data.get(key)) {
            (Some(certificate), Some(key)) => Authority::from_pem(&certificate.0, &key.0).map(Some),
            (None, None) => Ok(None),
            _ => Err(IssueError::Authority(format!("{certificate} and {key} belong together"))),
        };
        let newest = pair(CERTIFICATE, KEY)?;
        let newest = newest.ok_or_else(|| IssueError::Authority(format!("{CERTIFICATE} and {KEY} are missing")))?;
        let previous = pair(PREVIOUS_CERTIFICATE, PREVIOUS_KEY)?;
        Ok(Self { trusted: std::iter::once(newest).chain(previous).collect(), signer: 0 })
    }

    /// The authorities at that time, and whether they have changed.
    pub(super) fn at(self, now_s: i64) -> Result<(Self, bool), IssueError> {
        let Self { mut trusted, .. } = self;
        let found = trusted.len();
        // Drops an authority that was created while a clock was ahead. The certificates that it signs are not valid yet either.
        trusted.retain(|authority| !is_of_the_future(now_s, authority.validity()));
        let validities: Vec<Validity> = trusted.iter().map(Authority::validity).collect();
        let plan = authorities(now_s, &validities);
        let is_changed = plan.make || plan.keep != found;
        trusted.truncate(plan.keep);
        if plan.make {
            trusted.insert(0, Authority::make(now_s)?);
        }
        Ok((Self { trusted, signer: plan.signer }, is_changed))
    }

    pub(super) fn write(&self) -> Data {
        let names = [(CERTIFICATE, KEY), (PREVIOUS_CERTIFICATE, PREVIOUS_KEY)];
        let pairs = self.trusted.iter().zip(names).flat_map(|(authority, (certificate, key))| {
            [(certificate, authority.certificate()), (key, authority.key())]
        });
        let bundle = self.bundle();
        pairs
            .chain([(BUNDLE, &*bundle)])
            .map(|(name, text)| (name.to_owned(), ByteString(text.as_bytes().to_owned())))
            .collect()
    }

    pub(super) fn bundle(&self) -> String {
        self.trusted.iter().map(Authority::certificate).collect()
    }

    pub(super) fn newest(&self) -> Option<&Authority> {
        self.trusted.first()
    }

    pub(super) fn count(&self) -> usize {
        self.trusted.len()
    }

    pub(super) fn issue(&self, role: Role, now_s: i64) -> Result<Pem, IssueError> {
        let signer = self.trusted.get(self.signer);
        let signer = signer.ok_or_else(|| IssueError::Authority("there is none".to_owned()))?;
        Ok(Pem { authorities: self.bundle().into_bytes(), ..signer.issue(role, now_s)? })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// None: the certificate is valid and will be renewed in time.
    Nothing(Validity),
    /// The set of trusted authorities has changed; the certificate is still good.
    Bundle,
    /// A new certificate.
    Certificate,
}

pub(super) fn due(now_s: i64, there: Option<&Pem>, bundle: &str) -> Due {
    let Some(there) = there else { return Due::Certificate };
    let trusting = Pem { authorities: bundle.as_bytes().to_owned(), ..there.clone() };
    match Identity::from_pem(Role::Worker, &trusting) {
        Ok(identity) if is_due(now_s, identity.validity()) || !identity.is_of_its_authorities(now_s) => {
            Due::Certificate
        }
        Ok(identity) if *there == trusting => Due::Nothing(identity.validity()),
        Ok(_) => Due::Bundle,
        // Workers cannot use it.
        Err(_) => Due::Certificate,
    }
}

pub(super) fn read_pem(data: &Data) -> Option<Pem> {
    let [certificate, key, authorities] =
        [CERTIFICATE, KEY, BUNDLE].map(|name| data.get(name).map(|text| text.0.clone()));
    Some(Pem { certificate: certificate?, key: key?, authorities: authorities? })
}

pub(super) fn write_pem(pem: Pem) -> Data {
    let texts = [(CERTIFICATE, pem.certificate), (KEY, pem.key), (BUNDLE, pem.authorities)];
    texts.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text))).collect()
}

#[cfg(test)]
mod tests {
    use flotilla_transport::{AUTHORITY_LIFE_S, LEAF_LIFE_S, PUBLISH_S};

    use super::*;

    const DAY_S: i64 = 24 * 3600;
    /// Start of the test. Certificates cannot express times before 1970.
    const START_S: i64 = 1_000_000_000;

    #[test]
    fn an_authority_that_a_clock_ahead_has_made_is_replaced_once_the_clock_is_right_and_what_follows_stays() {
        let before = first(START_S);
        let ahead_s = START_S + 300 * DAY_S;
        let (wrong, is_changed) = before.at(ahead_s).expect("made");
        assert!(is_changed && wrong.count() == 2, "the one of the future is made beside the other");
        let (right, is_changed) = wrong.at(START_S + DAY_S).expect("the clock is right again");
        assert!(is_changed);
        let newest = right.newest().expect("there is one").validity();
        assert!((right.count(), newest.not_before_s) == (1, START_S - 300), "the one of before signs on");
        let pem = right.issue(Role::Worker, START_S + DAY_S).expect("a certificate");
        assert!(
            matches!(due(START_S + DAY_S, Some(&pem), &right.bundle()), Due::Nothing(_)),
            "and is not written again"
        );
        let (same, is_changed) = right.at(START_S + DAY_S + 10).expect("nothing to do");
        assert!(!is_changed && same.count() == 1);

        let alone = first(ahead_s);
        let (made, is_changed) = alone.at(START_S).expect("made anew");
        let newest = made.newest().expect("there is one").validity();
        assert!(is_changed && made.count() == 1 && newest.not_before_s <= START_S);
        let pem = made.issue(Role::Worker, START_S).expect("a certificate");
        assert!(matches!(due(START_S, Some(&pem), &made.bundle()), Due::Nothing(_)));
    }

    fn first(now_s: i64) -> Authorities {
        let (authorities, is_changed) = Authorities::default().at(now_s).expect("made");
        assert!(is_changed);
        authorities
    }

    fn next(authorities: &Authorities, now_s: i64) -> (Authorities, bool) {
        Authorities::read(&authorities.write()).expect("readable").at(now_s).expect("no failure")
    }

    #[test]
    fn an_authority_is_made_once_and_found_again() {
        let made = first(START_S);
        let (found, is_changed) = next(&made, START_S + 100 * DAY_S);
        assert!(!is_changed);
        assert_eq!(found.bundle(), made.bundle());
    }

    #[test]
    fn workers_get_a_certificate_when_they_have_none_and_another_at_two_thirds_of_its_life() {
        let authorities = first(START_S);
        let bundle = authorities.bundle();
        assert_eq!(due(START_S, None, &bundle), Due::Certificate);
        let pem = authorities.issue(Role::Worker, START_S).expect("issued");
        let there = read_pem(&write_pem(pem.clone()));
        assert_eq!(there.as_ref(), Some(&pem));
        assert!(
            matches!(due(START_S, Some(&pem), &bundle), Due::Nothing(validity) if validity.not_after_s == START_S + LEAF_LIFE_S)
        );
        assert!(matches!(due(START_S + 4 * DAY_S, Some(&pem), &bundle), Due::Nothing(_)));
        assert_eq!(due(START_S + 5 * DAY_S, Some(&pem), &bundle), Due::Certificate);
    }

    #[test]
    fn what_workers_cannot_use_is_replaced() {
        let authorities = first(START_S);
        let bundle = authorities.bundle();
        let sound = authorities.issue(Role::Worker, START_S).expect("issued");
        for unusable in [
            first(START_S).issue(Role::Worker, START_S).expect("issued"),
            authorities.issue(Role::Coordinator, START_S).expect("issued"),
            Pem { key: b"no key".to_vec(), ..sound.clone() },
            Pem { certificate: Vec::new(), ..sound },
        ] {
            assert_eq!(due(START_S, Some(&unusable), &bundle), Due::Certificate);
        }
    }

    #[test]
    fn an_authority_is_followed_by_another_and_all_certificates_stay_trusted() {
        let old = first(START_S);
        let leaf = |authorities: &Authorities, now_s| authorities.issue(Role::Worker, now_s).expect("issued");
        let follows_s = START_S + AUTHORITY_LIFE_S / 3 * 2;
        let before = leaf(&old, follows_s - 1);

        let (both, is_changed) = next(&old, follows_s);
        assert!(is_changed && both.count() == 2);
        assert_eq!(due(follows_s, Some(&before), &both.bundle()), Due::Bundle, "they are to trust the new one first");
        let during = leaf(&both, follows_s);
        assert!(matches!(due(follows_s, Some(&during), &old.bundle()), Due::Bundle), "the old one signs it");

        let taken_over_s = follows_s + PUBLISH_S;
        let (taken_over, is_changed) = next(&both, taken_over_s);
        assert!(!is_changed);
        let after = leaf(&taken_over, taken_over_s);
        assert_eq!(due(taken_over_s, Some(&after), &old.bundle()), Due::Certificate, "the new one signs it");

        let last_s = taken_over_s + LEAF_LIFE_S;
        let (new, is_changed) = next(&taken_over, last_s);
        assert!(is_changed && new.count() == 1 && both.bundle().starts_with(&new.bundle()));
        let last = leaf(&both, taken_over_s - 1);
        let ends_s = Identity::from_pem(Role::Worker, &last).expect("sound").validity().not_after_s;
        assert!(ends_s <= last_s, "all certificates that the old one signed have ended");
    }

    #[test]
    fn half_a_secret_is_no_authority() {
        let mut data = first(START_S).write();
        data.remove(KEY);
        let error = Authorities::read(&data).expect_err("half of it").to_string();
        assert!(error.ends_with("tls.crt and tls.key belong together"), "{error}");
        let error = Authorities::read(&Data::new()).expect_err("nothing").to_string();
        assert!(error.ends_with("tls.crt and tls.key are missing"), "{error}");
    }
}
