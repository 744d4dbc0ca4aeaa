use super::rans::{self, Table};

pub const FORECASTS: [(i64, i64); 8] = [(0, 0), (2, 0), (3, 0), (4, 0), (0, 2), (0, 4), (2, 2), (1, 3)];
const ACTS: usize = 12;
const CLASSES: usize = 8;
const ROWS: usize = 4;
const FINE: usize = ACTS * CLASSES * ROWS * 2;

#[inline(always)]
fn quarter(x: i64) -> i64 {
    (x + if x >= 0 { 2 } else { 1 }) >> 2
}

#[inline(always)]
fn cap(x: i64) -> u32 {
    x.unsigned_abs().min(1 << 20) as u32
}

/// log2 in halves
#[inline(always)]
fn log_level(x: u32) -> usize {
    let x = x + 1;
    let bits = 31 - x.leading_zeros();
    let half = if bits > 0 { (x >> (bits - 1)) & 1 } else { 0 };
    (2 * bits + half) as usize
}

pub struct Plan {
    pub period: usize,
    pub forecasts: Vec<u8>,
    pub classes: Vec<u8>,
}

pub fn plan(values: &[i64], sensors: usize, period: usize) -> Plan {
    let rows = values.len() / sensors;
    let mut forecasts = vec![0u8; sensors];
    let mut classes = vec![0u8; sensors];
    // costs row by row, so that memory is read once
    let nf = if period > 0 { FORECASTS.len() } else { 4 };
    let mut costs = vec![0u64; sensors * FORECASTS.len()];
    let step = (rows / 512).max(1);
    for t in (0..rows).step_by(step) {
        for s in 0..sensors {
            let at = |back: usize| if t >= back && back > 0 { values[(t - back) * sensors + s] } else { 0 };
            let (a, b) = (at(1), at(period));
            let v = values[t * sensors + s];
            for f in 0..nf {
                let r = v - quarter(FORECASTS[f].0 * a + FORECASTS[f].1 * b);
                costs[s * FORECASTS.len() + f] += log_level(cap(r).wrapping_mul(2)) as u64;
            }
        }
    }
    for s in 0..sensors {
        let c = &costs[s * FORECASTS.len()..][..nf];
        let mut best = 0;
        for f in 1..nf {
            if c[f] * 100 < c[best] * 98 { best = f; }
        }
        forecasts[s] = best as u8;
        let mean = 16 * c[best] as usize / (rows.div_ceil(step)) ;
        classes[s] = (mean / 12).min(CLASSES - 1) as u8;
    }
    Plan { period, forecasts, classes }
}

/// fine context and sign flip for each value; calls code(ctx, r) -> r
#[inline(always)]
fn walk(values: &mut [i64], sensors: usize, plan: &Plan, mut code: impl FnMut(usize, i64) -> i64) {
    let rows = values.len() / sensors;
    let mut mags = [vec![0u32; sensors], vec![0u32; sensors]]; // |r| at t-1, t-2
    let mut pmag = vec![0u16; if plan.period > 0 { plan.period * sensors } else { 0 }];
    let zero = vec![0i64; sensors];
    for t in 0..rows {
        let (before, rest) = values.split_at_mut(t * sensors);
        let now = &mut rest[..sensors];
        let last = if t >= 1 { &before[(t - 1) * sensors..t * sensors] } else { &zero[..] };
        let per = if plan.period > 0 && t >= plan.period { &before[(t - plan.period) * sensors..][..sensors] } else { &zero[..] };
        let [m1, m2] = &mut mags;
        let slot = if plan.period > 0 { (t % plan.period) * sensors } else { 0 };
        let (mut left, mut left2) = (0u32, 0u32);
        let mut sleft = 0i64;
        let mut row = 0u32;
        for s in 0..sensors {
            let (a, b) = FORECASTS[plan.forecasts[s] as usize];
            let forecast = quarter(a.wrapping_mul(last[s]).wrapping_add(b.wrapping_mul(per[s])));
            let pm = if plan.period > 0 { pmag[slot + s] as u32 } else { m2[s] };
            let act = 3 * m1[s] + 2 * m2[s] + 2 * pm + 2 * left + left2;
            let lean = 2 * (last[s].wrapping_sub(forecast)) .clamp(-8, 8)+ if plan.period > 0 { 2 * per[s].wrapping_sub(forecast).clamp(-8, 8) } else { 0 } + sleft.clamp(-4, 4);
            let flip = lean < 0;
            let ctx = ((log_level(act).min(ACTS - 1) * CLASSES + plan.classes[s] as usize) * ROWS + (log_level(row >> 5).min(ROWS - 1))) * 2 + (lean != 0) as usize;
            let r = now[s].wrapping_sub(forecast);
            let r = if flip { r.wrapping_neg() } else { r };
            let r = code(ctx, r);
            let r = if flip { r.wrapping_neg() } else { r };
            now[s] = r.wrapping_add(forecast);
            let m = cap(r);
            m2[s] = m1[s];
            m1[s] = m;
            if plan.period > 0 { pmag[slot + s] = m.min(65535) as u16; }
            left2 = left;
            left = m;
            sleft = r;
            row = (row * 15 + (m.min(4095) << 8)) >> 4;
        }
    }
}

pub fn encode(values: &[i64], sensors: usize, plan: &Plan) -> Vec<u8> {
    let mut copy = values.to_vec();
    let mut symbols: Vec<(u16, u8)> = Vec::with_capacity(values.len());
    let mut extras = rans::Bits::default();
    let mut counts = vec![[0u32; rans::SYMBOLS]; FINE];
    walk(&mut copy, sensors, plan, |ctx, r| {
        let (symbol, bits, extra) = rans::split(r);
        if bits > 0 { extras.push(extra, bits); }
        counts[ctx][symbol as usize] += 1;
        symbols.push((ctx as u16, symbol));
        r
    });
    let (map, merged) = rans::cluster(&counts);
    let tables: Vec<Table> = merged.iter().map(|c| Table::from_counts(c)).collect();
    let mut out = Vec::new();
    out.extend(plan.forecasts.iter().zip(&plan.classes).map(|(f, c)| f << 4 | c));
    out.extend_from_slice(&map);
    let h0 = out.len();
    for t in &tables { t.write(&mut out); }
    let h1 = out.len();
    let coded = rans::encode(symbols.iter().rev().map(|(c, s)| (&tables[map[*c as usize] as usize], *s)));
    if std::env::var("V").is_ok() { eprintln!("sensors {} map {} tables {} ({}) coded {} extras {}", sensors, map.len(), h1 - h0, tables.len(), coded.len(), extras.bytes().len()); }
    // map is mostly runs: charge zstd size
    out.extend_from_slice(&coded);
    out.extend_from_slice(&extras.bytes());
    out
}
pub fn header_saving(sensors: usize, bytes: &[u8]) -> usize { let h=&bytes[..sensors+FINE]; h.len()-zstd::encode_all(h,19).unwrap().len() }
pub fn decode(bytes: &[u8], len: usize, sensors: usize, period: usize) -> Vec<i64> {
    let forecasts = bytes[..sensors].iter().map(|b| b >> 4).collect();
    let classes = bytes[..sensors].iter().map(|b| b & 15).collect();
    let plan = Plan { period, forecasts, classes };
    let map = &bytes[sensors..sensors + FINE];
    let mut rest = &bytes[sensors + FINE..];
    let n = *map.iter().max().unwrap() as usize + 1;
    let tables: Vec<Table> = (0..n).map(|_| Table::read(&mut rest)).collect();
    let (mut decoder, extra) = rans::Decoder::new(rest);
    let mut extras = rans::BitReader::new(extra);
    let mut values = vec![0; len];
    walk(&mut values, sensors, &plan, |ctx, _| {
        let symbol = decoder.symbol(&tables[map[ctx] as usize]);
        rans::join(symbol, &mut extras)
    });
    values
}
