package overflow

import "testing"

func TestSays(t *testing.T) {
	for message, want := range map[string]bool{
		"prompt is too long: 210000 tokens > 200000 maximum":                                                                    true,
		"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000":                                           true,
		"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens":                                true,
		"You passed 40000 input tokens and requested 0 output tokens. However, the model's context length is only 32768 tokens": true,
		"the request exceeds the available context size, try increasing it":                                                     true,
		"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).":                               true,
		"The number of tokens to keep from the initial prompt is greater than the context length.":                              true,
		"Trying to keep the first 9000 tokens when context the overflows.":                                                      true,
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.":                                  true,
		"Please reduce the length of the messages or completion.":                                                               true,
		"Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)":                                  true,
		"invalid params, context window exceeds limit (2013)":                                                                   true,
		"The input (90000 tokens) is longer than the model's context length (32768 tokens).":                                    true,
		"Your input exceeds the context window of this model. Please adjust your input and try again.":                          true,
		"Input is too long for requested model.":                                                                                true,
		"prompt too long; exceeded max context length by 1000 tokens":                                                           true,
		"prompt token count of 130000 exceeds the limit of 128000":                                                              true,
		"Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length":                true,
		"": false,
		"max_tokens is too large: 9000. This model supports at most 4096 completion tokens":                                      false,
		"Rate limit reached for model x on tokens per minute (TPM): Limit 6000, Requested 9000. Please reduce your message size": false,
		"the image exceeds the limit of 5 MB":              false,
		"too many tokens, please wait before trying again": false,
	} {
		if got := Says(message); got != want {
			t.Errorf("Says(%q) = %t", message, got)
		}
	}
}
