package run

import (
	"testing"

	"jp/convstore"
)

func TestContextTokens(t *testing.T) {
	grant := func(n int64) *convstore.Grant { return &convstore.Grant{Budget: convstore.Budget{Tokens: &n}} }
	for _, tt := range []struct {
		grant *convstore.Grant
		want  int64
	}{
		{nil, 4000}, {&convstore.Grant{}, 4000}, {grant(100_000), 4000}, {grant(8000), 4000}, {grant(7999), 3999}, {grant(1), 0}, {grant(0), 0},
	} {
		if got := contextTokens(convstore.Conversation{Grant: tt.grant}); got != tt.want {
			t.Errorf("contextTokens(%+v) = %d, want %d", tt.grant, got, tt.want)
		}
	}
}
