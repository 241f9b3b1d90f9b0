import unittest
from datetime import date

from moon import MONTH, age, phase
from page import page


class MoonTest(unittest.TestCase):
    def test_knows_some_moons(self) -> None:
        known = {date(2024, 4, 8): "new moon", date(2024, 4, 24): "full moon"}
        for day, name in known.items():
            with self.subTest(day=day):
                self.assertEqual(phase(day), name)

    def test_age_stays_within_a_month(self) -> None:
        self.assertTrue(all(0 <= age(date(2026, month, 1)) < MONTH for month in range(1, 13)))

    def test_page_shows_the_day_asked_for(self) -> None:
        self.assertIn("2026-03-14", page(date(2026, 3, 14)))


if __name__ == "__main__":
    unittest.main()
