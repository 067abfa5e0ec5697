//! Lifecycle of certificates and authorities: a pure function of time.
//!
//! A new authority is published first and signs later, so that all peers trust it before the first certificate that it signs. A replaced
//! authority stays trusted until the last certificate that it can have signed expires. Everything follows from the dates in the
//! certificates, so there is no other state.

use crate::tls::Validity;

/// Validity of an authority: a year.
pub const AUTHORITY_LIFE_S: i64 = 365 * 24 * 3600;
/// Validity of a coordinator's or worker's certificate: a week. Renewed after two thirds, so that the renewing coordinator can be absent
/// for two days.
pub const LEAF_LIFE_S: i64 = 7 * 24 * 3600;
/// Time from the creation of an authority to its first signature. The kubelet updates a Secret within two minutes; an hour suffices for
/// pods that restart meanwhile.
pub const PUBLISH_S: i64 = 3600;
/// Certificates are valid from this much earlier, for peers with a slow clock.
pub(crate) const BACKDATE_S: i64 = 300;

/// Actions on the authorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authorities {
    /// Whether to create one, which then comes first.
    pub make: bool,
    /// Number of existing authorities that stay trusted, newest first.
    pub keep: usize,
    /// Index of the signer, newest first, including the one to be created.
    pub signer: usize,
}

/// Whether validity begins after `now_s`. Certificates begin five minutes before their creation, so this clock was set back or the issuer's
/// clock is ahead. Peers reject the certificate.
#[must_use]
pub fn is_of_the_future(now_s: i64, validity: Validity) -> bool {
    now_s < validity.not_before_s
}

/// Whether renewal is due: two thirds of the validity are over, or it has not begun.
#[must_use]
pub fn is_due(now_s: i64, validity: Validity) -> bool {
    if is_of_the_future(now_s, validity) {
        return true;
    }
    let life_s = validity.not_after_s.saturating_sub(validity.not_before_s);
    now_s >= validity.not_before_s.saturating_add(life_s / 3 * 2)
}

/// The actions on existing authorities, newest first. None of them may be [of the future](is_of_the_future).
#[must_use]
pub fn authorities(now_s: i64, there: &[Validity]) -> Authorities {
    let signs_from_s = |validity: &Validity| validity.not_before_s.saturating_add(BACKDATE_S + PUBLISH_S);
    let mut keep = 0;
    for (place, validity) in there.iter().enumerate() {
        let followed_s = place.checked_sub(1).and_then(|newer| there.get(newer)).map(signs_from_s);
        let is_needed = followed_s.is_none_or(|followed_s| now_s < followed_s.saturating_add(LEAF_LIFE_S));
        if !is_needed || now_s >= validity.not_after_s {
            break;
        }
        keep = place + 1;
    }
    let make = there.first().filter(|_| keep > 0).is_none_or(|newest| is_due(now_s, *newest));
    let made = usize::from(make);
    let kept = there.get(..keep).unwrap_or_default();
    // The new authority signs only if it is the only one.
    let oldest = keep.saturating_sub(1);
    let signer = kept.iter().position(|validity| now_s >= signs_from_s(validity)).unwrap_or(oldest);
    Authorities { make, keep, signer: if keep == 0 { 0 } else { made + signer } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: i64 = 24 * 3600;

    fn made_at(now_s: i64) -> Validity {
        Validity { not_before_s: now_s - BACKDATE_S, not_after_s: now_s + AUTHORITY_LIFE_S }
    }

    #[test]
    fn a_certificate_is_due_at_two_thirds_of_its_life() {
        let validity = Validity { not_before_s: 1_000, not_after_s: 1_300 };
        let due: Vec<bool> = [1_000, 1_199, 1_200, 1_299, 5_000].map(|now_s| is_due(now_s, validity)).into();
        assert_eq!(due, [false, false, true, true, true]);
        assert!(is_due(5, Validity { not_before_s: 5, not_after_s: -5 }), "one that ends before it begins");
    }

    #[test]
    fn a_certificate_that_begins_only_later_is_due_at_once() {
        let validity = Validity { not_before_s: 1_000, not_after_s: 1_300 };
        assert!(is_due(999, validity) && is_of_the_future(999, validity));
        assert!(!is_due(1_000, validity) && !is_of_the_future(1_000, validity));
    }

    #[test]
    fn the_first_authority_is_made_and_signs_at_once() {
        assert_eq!(authorities(0, &[]), Authorities { make: true, keep: 0, signer: 0 });
        assert_eq!(authorities(0, &[made_at(0)]), Authorities { make: false, keep: 1, signer: 0 });
    }

    #[test]
    fn one_that_has_ended_is_replaced_by_one_that_signs_at_once() {
        let now_s = AUTHORITY_LIFE_S;
        assert_eq!(authorities(now_s, &[made_at(0)]), Authorities { make: true, keep: 0, signer: 0 });
    }

    #[test]
    fn at_two_thirds_of_its_life_another_is_made_and_the_old_one_goes_on_signing() {
        let now_s = 250 * DAY_S;
        assert_eq!(authorities(now_s, &[made_at(0)]), Authorities { make: true, keep: 1, signer: 1 });
        let there = [made_at(now_s), made_at(0)];
        assert_eq!(authorities(now_s, &there), Authorities { make: false, keep: 2, signer: 1 });
        assert_eq!(authorities(now_s + PUBLISH_S - 1, &there), Authorities { make: false, keep: 2, signer: 1 });
    }

    #[test]
    fn the_new_one_signs_once_all_peers_trust_it_and_the_old_one_stays_until_its_last_certificate_has_ended() {
        let now_s = 250 * DAY_S;
        let there = [made_at(now_s), made_at(0)];
        let taken_over_s = now_s + PUBLISH_S;
        assert_eq!(authorities(taken_over_s, &there), Authorities { make: false, keep: 2, signer: 0 });
        let last_s = taken_over_s + LEAF_LIFE_S;
        assert_eq!(authorities(last_s - 1, &there), Authorities { make: false, keep: 2, signer: 0 });
        assert_eq!(authorities(last_s, &there), Authorities { make: false, keep: 1, signer: 0 });
    }

    #[test]
    fn over_ten_years_there_is_always_a_valid_signer_whose_certificates_end_before_its_trust_does() {
        let mut there: Vec<Validity> = Vec::new();
        let mut signed: Vec<(Validity, i64)> = Vec::new();
        for now_s in (0..10 * 365 * DAY_S).step_by(1_800) {
            let plan = authorities(now_s, &there);
            there.truncate(plan.keep);
            if plan.make {
                there.insert(0, made_at(now_s));
            }
            let signer = there[plan.signer];
            assert!(now_s < signer.not_after_s && there.len() <= 2);
            signed.retain(|(_, ends_s)| now_s < *ends_s);
            assert!(
                signed.iter().all(|(by, _)| there.contains(by)),
                "a certificate that is still valid lost its trust"
            );
            signed.retain(|(by, _)| *by != signer);
            signed.push((signer, signer.not_after_s.min(now_s + LEAF_LIFE_S)));
            let trusted_for_s = now_s - (signer.not_before_s + BACKDATE_S);
            assert!(trusted_for_s >= PUBLISH_S || there.len() == 1, "no peer can trust it yet");
        }
    }
}
