import unittest

from roof import Limits, Reading, decide, load_limits

LIMITS = Limits(wind=14.0, humidity=85.0)


class RoofTest(unittest.TestCase):
    def test_opens_in_calm_dry_air(self) -> None:
        self.assertEqual(decide(Reading(3.0, 40.0, False), LIMITS).state, "open")

    def test_shuts_for_rain_wind_and_damp(self) -> None:
        for reading in (Reading(3.0, 40.0, True), Reading(14.1, 40.0, False), Reading(3.0, 85.1, False)):
            with self.subTest(reading=reading):
                self.assertEqual(decide(reading, LIMITS).state, "shut")

    def test_shuts_when_a_sensor_is_silent(self) -> None:
        decision = decide(Reading(None, 40.0, False), LIMITS)
        self.assertEqual((decision.state, decision.reason), ("shut", "wind sensor is silent"))

    def test_reads_its_limits(self) -> None:
        self.assertEqual(load_limits(), LIMITS)


if __name__ == "__main__":
    unittest.main()
