//! Natural logarithm, bit-identical to kube-scheduler's.
//!
//! It implements FreeBSD's `e_log.c`, as Go's `math.Log` does on every platform. A platform's own logarithm may differ in the last bit, and
//! so may a rounded score.

const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
const L1: f64 = f64::from_bits(0x3fe5_5555_5555_5593);
const L2: f64 = f64::from_bits(0x3fd9_9999_9997_fa04);
const L3: f64 = f64::from_bits(0x3fd2_4924_9422_9359);
const L4: f64 = f64::from_bits(0x3fcc_71c5_1d8e_78af);
const L5: f64 = f64::from_bits(0x3fc7_4664_96cb_03de);
const L6: f64 = f64::from_bits(0x3fc3_9a09_d078_c69f);
const L7: f64 = f64::from_bits(0x3fc2_f112_df3e_5244);

/// Natural logarithm of a finite number of at least 1.
pub(super) fn ln(number: f64) -> f64 {
    let bits = number.to_bits();
    // number = fraction * 2^exponent with the fraction in [0.5, 1).
    let mut fraction = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3fe0_0000_0000_0000);
    let biased = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    let mut exponent = f64::from(biased - 0x3fe);
    if fraction < std::f64::consts::SQRT_2 / 2.0 {
        fraction *= 2.0;
        exponent -= 1.0;
    }
    let f = fraction - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let odd = s2 * (L1 + s4 * (L3 + s4 * (L5 + s4 * L7)));
    let even = s4 * (L2 + s4 * (L4 + s4 * L6));
    let half = 0.5 * f * f;
    exponent * LN2_HIGH - ((half - (s * (half + (odd + even)) + exponent * LN2_LOW)) - f)
}

#[cfg(test)]
mod tests {
    use super::ln;

    #[test]
    fn logarithms_are_those_of_go() {
        // Bits of math.Log, from Go 1.26 on amd64.
        for (number, bits) in GO {
            assert_eq!(ln(number).to_bits(), bits, "ln({number})");
        }
    }

    const GO: [(f64, u64); 15] = [
        (2.0, 0x3fe6_2e42_fefa_39ef),
        (3.0, 0x3ff1_93ea_7aad_030a),
        (4.0, 0x3ff6_2e42_fefa_39ef),
        (5.0, 0x3ff9_c041_f7ed_8d33),
        (7.0, 0x3fff_2272_ae32_5a57),
        (10.0, 0x4002_6bb1_bbb5_5516),
        (12.0, 0x4003_e116_bcd3_9e7d),
        (52.0, 0x400f_9c25_aaae_a949),
        (102.0, 0x4012_7ff8_df87_c7bd),
        (502.0, 0x4018_dfd8_b5b3_e920),
        (1002.0, 0x401b_a396_5d40_5f5f),
        (5002.0, 0x4021_0901_f6dc_84b9),
        (15_002.0, 0x4023_3b5c_54bb_9573),
        (65_538.0, 0x4026_2e46_fef6_39f5),
        (1_000_002.0, 0x402b_a18a_dcab_d9bd),
    ];

    #[test]
    fn two_million_logarithms_are_those_of_go() {
        // FNV-1a over the bits, computed by Go.
        let hash = (2..2_000_000_u32).fold(0xcbf2_9ce4_8422_2325_u64, |hash, number| {
            let bytes = ln(f64::from(number)).to_bits().to_le_bytes();
            bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        });
        assert_eq!(hash, 0xdea3_df32_a882_ce2d);
    }
}
