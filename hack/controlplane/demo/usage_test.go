package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBar(t *testing.T) {
	cases := map[string]struct {
		reason          string
		reserved, limit string
		want            int
	}{
		"Nothing":      {"Nothing reserved is an empty bar.", "0", "64", 0},
		"Little":       {"A little is seen.", "1", "640", 1},
		"Half":         {"Half of the quota is half of the bar, in other units too.", "128Gi", "262144Mi", 16},
		"AlmostFull":   {"A bar is full only when the quota is.", "63500m", "64", 31},
		"Full":         {"A full quota fills the bar.", "64", "64", 32},
		"OverQuota":    {"A quota that was lowered below what is reserved does not break the table.", "80", "64", 32},
		"NoQuota":      {"A quota of zero can be drawn.", "0", "0", 0},
		"NothingInAll": {"What does not fit into a quota of zero shows.", "4", "0", 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := bar(tc.reserved, tc.limit)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Repeat("█", tc.want) + strings.Repeat("░", barWidth-tc.want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\nbar(%s, %s): -want, +got:\n%s", tc.reason, tc.reserved, tc.limit, diff)
			}
		})
	}
}
