package model

import (
	"testing"
	"time"
)

func TestLasting(t *testing.T) {
	for _, tt := range []struct {
		e     Error
		limit time.Duration
		want  bool
	}{
		{Error{Kind: KindAuth}, time.Hour, true},
		{Error{Kind: KindUnknownModel}, 0, true},
		{Error{Kind: KindQuota}, time.Hour, true},
		{Error{Kind: KindQuota, RetryAfter: time.Minute}, 0, false},
		{Error{Kind: KindQuota, RetryAfter: time.Hour}, 0, true},
		{Error{Kind: KindQuota, RetryAfter: time.Hour}, 2 * time.Hour, false},
		{Error{Kind: KindRateLimit}, 0, false},
		{Error{Kind: KindRateLimit, RetryAfter: time.Hour}, 0, true},
		{Error{Kind: KindServer, RetryAfter: time.Hour}, 0, false},
		{Error{Kind: KindBadRequest}, 0, false},
	} {
		if got := tt.e.Lasting(tt.limit); got != tt.want {
			t.Errorf("%v, after %v, limit %v: lasting = %t", &tt.e, tt.e.RetryAfter, tt.limit, got)
		}
	}
}
