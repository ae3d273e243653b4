package models

import "testing"

func TestCompactLimit(t *testing.T) {
	for _, test := range []struct {
		window, reply int
		share         float64
		want          int64
	}{
		{0, 64_000, 0.8, 0}, // nothing is known of the model
		{1000, 0, 0.8, 800},
		{1000, 100, 0.8, 800},
		{200_000, 64_000, 0.8, 150_000},
		{200_000, 100_000, 0.5, 100_000},
		{1_000_000, 128_000, 1, 872_000},
		{100, 1 << 40, 1, 75},
	} {
		if got := compactLimit(test.window, test.reply, test.share); got != test.want {
			t.Errorf("compactLimit(%d, %d, %v) = %d, want %d", test.window, test.reply, test.share, got, test.want)
		}
	}
}
