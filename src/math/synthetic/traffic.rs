//! Speeds on a made-up road network: what loop sensors report every five minutes.
//!
//! Sensors sit along corridors. A corridor has a morning and an evening peak whose strength and
//! timing vary smoothly along it, differ by day of the week and drift from day to day; demand
//! wanders from interval to interval; incidents slow one place down and the sensors upstream of it
//! later and less. So neighbours are correlated, days repeat, and some hours are news.

use super::random::Random;

/// Minutes between two rows.
pub const INTERVAL_MINUTES: usize = 5;
const STEPS_PER_DAY: usize = 24 * 60 / INTERVAL_MINUTES;
const SENSORS_PER_CORRIDOR: usize = 24;
const MILES_BETWEEN_SENSORS: f64 = 0.6;
/// How fast the tail of a queue runs backwards, in sensors per interval.
const QUEUE_SPEED: f64 = 1.2;
/// Rows after which an incident is over everywhere.
const LONGEST_INCIDENT: usize = 64;
const NOISE_MPH: f64 = 1.1;

/// The size of a generated network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficOptions {
    /// Sensors on the network.
    pub sensors: usize,
    /// Days, the first being a Monday.
    pub days: usize,
    /// The same seed gives the same data.
    pub seed: u64,
    /// Incidents per corridor and day, on average.
    pub incidents_per_day: f64,
    /// The day from which on bottlenecks and limits are others, if there is one.
    pub drift_day: Option<usize>,
}

impl Default for TrafficOptions {
    fn default() -> Self {
        Self { sensors: 200, days: 7, seed: 0, incidents_per_day: 0.35, drift_day: None }
    }
}

/// Something that happened on the road and that the data shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Incident {
    /// The sensor nearest to it.
    pub sensor: usize,
    /// The first row it slows down.
    pub start: usize,
    /// The first row after it has cleared at its sensor.
    pub end: usize,
    /// The share of speed lost at its sensor.
    pub severity: f64,
    /// How many sensors upstream the queue reaches.
    pub reach: usize,
}

struct Sensor {
    corridor: usize,
    /// Position along the corridor, in sensors; traffic flows towards larger positions.
    position: f64,
    free_flow: f64,
    /// Share of speed lost at the height of the morning and the evening peak.
    morning: f64,
    evening: f64,
}

struct Corridor {
    /// Demand relative to its mean, wandering slowly.
    demand: f64,
    /// Today's strength and shift of the peaks.
    strength: f64,
    shift_hours: f64,
    random: Random,
}

/// A network that produces its rows one after the other, in little memory.
pub struct Traffic {
    sensors: Vec<Sensor>,
    /// What the sensors become, and the row from which on.
    later: Option<(usize, Vec<Sensor>)>,
    corridors: Vec<Corridor>,
    incidents: Vec<Incident>,
    noise: Random,
    step: usize,
    steps: usize,
}

/// Builds the network; [`Traffic::next_row`] then gives a row per interval.
pub fn traffic(options: &TrafficOptions) -> Traffic {
    let corridors = options.sensors.div_ceil(SENSORS_PER_CORRIDOR);
    let sensors = network(options.sensors, Random::new(options.seed, 0));
    // A stream of its own: with and without a drift the first days are the same.
    let changed = || network(options.sensors, Random::new(options.seed, u64::MAX - 1));
    let later = options.drift_day.map(|day| (day * STEPS_PER_DAY, changed()));
    let incidents = plan_incidents(options, corridors);
    let corridors = (0..corridors).map(|corridor| Corridor {
        demand: 0.0,
        strength: 1.0,
        shift_hours: 0.0,
        random: Random::new(options.seed, 2 + corridor as u64),
    });
    let corridors = corridors.collect();
    let noise = Random::new(options.seed, 1);
    Traffic { sensors, later, corridors, incidents, noise, step: 0, steps: options.days * STEPS_PER_DAY }
}

/// Sensors along corridors.
fn network(sensors: usize, mut random: Random) -> Vec<Sensor> {
    let corridors = sensors.div_ceil(SENSORS_PER_CORRIDOR);
    let profiles: Vec<[f64; 6]> =
        (0..corridors).map(|_| [(); 6].map(|()| random.uniform(0.0, 1.0))).collect();
    let sensors = (0..sensors).map(|i| {
        let (corridor, position) = (i / SENSORS_PER_CORRIDOR, (i % SENSORS_PER_CORRIDOR) as f64);
        let [limit, morning, evening, first, second, phase] = profiles[corridor];
        // Bottlenecks: smooth bumps along the corridor.
        let along = position / SENSORS_PER_CORRIDOR as f64;
        let bump = |centre: f64| (-((along - centre) / 0.22).powi(2)).exp();
        let hills = 0.05 * (along * 12.0 + phase * 6.0).sin();
        Sensor {
            corridor,
            position,
            free_flow: 58.0 + 12.0 * limit + 40.0 * hills + random.normal(),
            morning: (0.15 + 0.6 * morning * bump(first)).min(0.8),
            evening: (0.15 + 0.6 * evening * bump(second)).min(0.8),
        }
    });
    sensors.collect()
}

fn plan_incidents(options: &TrafficOptions, corridors: usize) -> Vec<Incident> {
    let mut random = Random::new(options.seed, u64::MAX);
    let mut incidents = Vec::new();
    for day in 0..options.days {
        for corridor in 0..corridors {
            let first = corridor * SENSORS_PER_CORRIDOR;
            let here = (options.sensors - first).min(SENSORS_PER_CORRIDOR);
            let mut expected = options.incidents_per_day;
            while random.uniform(0.0, 1.0) < expected {
                expected -= 1.0;
                // Between five in the morning and eleven at night.
                let start = day * STEPS_PER_DAY + 60 + random.below(216);
                incidents.push(Incident {
                    sensor: first + random.below(here),
                    start,
                    end: start + 5 + random.below(14),
                    severity: random.uniform(0.4, 0.8),
                    reach: 2 + random.below(6),
                });
            }
        }
    }
    incidents.sort_by_key(|incident| (incident.start, incident.sensor));
    incidents
}

impl Traffic {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.steps
    }

    /// The planted incidents, in order of time.
    pub fn incidents(&self) -> &[Incident] {
        &self.incidents
    }

    /// Writes the speeds of the next interval in miles per hour, to a tenth; false after the last.
    pub fn next_row(&mut self, speeds: &mut [f64]) -> bool {
        if self.step >= self.steps {
            return false;
        }
        if self.later.as_ref().is_some_and(|(step, _)| *step == self.step)
            && let Some((_, sensors)) = self.later.take()
        {
            self.sensors = sensors;
        }
        let (day, hour) =
            (self.step / STEPS_PER_DAY, (self.step % STEPS_PER_DAY) as f64 * 24.0 / STEPS_PER_DAY as f64);
        let weekend = day % 7 >= 5;
        for corridor in &mut self.corridors {
            if self.step.is_multiple_of(STEPS_PER_DAY) {
                corridor.strength =
                    if weekend { 0.25 } else { 1.0 } * (0.12 * corridor.random.normal()).exp();
                corridor.shift_hours = 0.2 * corridor.random.normal();
            }
            corridor.demand = 0.95 * corridor.demand + 0.025 * corridor.random.normal();
        }
        for (speed, sensor) in speeds.iter_mut().zip(&self.sensors) {
            let corridor = &self.corridors[sensor.corridor];
            // Peaks reach sensors one after the other.
            let time = hour - corridor.shift_hours - sensor.position * MILES_BETWEEN_SENSORS / 45.0;
            let peak = |centre: f64, width: f64| (-((time - centre) / width).powi(2)).exp();
            let load = sensor.morning * peak(7.9, 1.3) + sensor.evening * peak(17.3, 1.9);
            let night = 0.03 * peak(3.0, 2.5);
            let loss = (corridor.strength * load * (1.0 + corridor.demand) + 0.3 * corridor.demand.abs()
                - night)
                .clamp(0.0, 0.9);
            *speed = sensor.free_flow * (1.0 - loss);
        }
        self.slow_down_for_incidents(speeds);
        for speed in speeds.iter_mut() {
            let noisy = *speed + NOISE_MPH * self.noise.normal();
            *speed = (noisy.clamp(3.0, 85.0) * 10.0).round() / 10.0;
        }
        self.step += 1;
        true
    }

    fn slow_down_for_incidents(&self, speeds: &mut [f64]) {
        let row = self.step;
        let first = self.incidents.partition_point(|incident| incident.start + LONGEST_INCIDENT < row);
        let latest = self.incidents.partition_point(|incident| incident.start <= row);
        for incident in &self.incidents[first..latest] {
            let corridor = self.sensors[incident.sensor].corridor;
            for distance in 0..=incident.reach.min(incident.sensor - corridor * SENSORS_PER_CORRIDOR) {
                let delay = (distance as f64 / QUEUE_SPEED) as usize;
                if (incident.start + delay..incident.end + delay).contains(&row) {
                    let fade = 1.0 - distance as f64 / (incident.reach + 1) as f64;
                    speeds[incident.sensor - distance] *= 1.0 - incident.severity * fade;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides() {
        let all = |seed| {
            let mut network = traffic(&TrafficOptions { sensors: 30, days: 2, seed, ..Default::default() });
            let (mut rows, mut row) = (Vec::new(), vec![0.0; 30]);
            while network.next_row(&mut row) {
                rows.extend_from_slice(&row);
            }
            (rows, network.incidents().to_vec())
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        assert_eq!(all(1).0.len(), 30 * 2 * STEPS_PER_DAY);
    }

    #[test]
    fn a_drift_changes_what_follows_and_nothing_before() {
        let rows = |drift_day| {
            let options = TrafficOptions { sensors: 30, days: 3, seed: 6, drift_day, ..Default::default() };
            let (mut network, mut row) = (traffic(&options), vec![0.0; 30]);
            let mut rows = Vec::new();
            while network.next_row(&mut row) {
                rows.push(row.clone());
            }
            rows
        };
        let (calm, drifted) = (rows(None), rows(Some(2)));
        let day = 2 * STEPS_PER_DAY;
        assert_eq!(calm[..day], drifted[..day]);
        let differs = |row: usize| calm[row].iter().zip(&drifted[row]).any(|(a, b)| (a - b).abs() > 5.0);
        assert!((day..calm.len()).all(differs));
    }

    #[test]
    fn incidents_show_in_the_speeds() {
        let calm =
            TrafficOptions { sensors: 48, days: 3, seed: 4, incidents_per_day: 0.0, ..Default::default() };
        let (mut with, mut without) =
            (traffic(&TrafficOptions { incidents_per_day: 1.0, ..calm }), traffic(&calm));
        assert!(with.incidents().len() > 3 && without.incidents().is_empty());
        let incident = with.incidents()[1];
        let (mut slow, mut free) = (vec![0.0; 48], vec![0.0; 48]);
        for _ in 0..=incident.start {
            assert!(with.next_row(&mut slow) && without.next_row(&mut free));
        }
        let ratio = slow[incident.sensor] / free[incident.sensor];
        assert!(ratio < 1.0 - 0.6 * incident.severity, "{ratio} for {incident:?}");
    }
}
