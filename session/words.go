package session

import "github.com/sbxd/sbxd/api"

// Word and Words carry strings of any bytes; the shim's messages use what the API uses.
type (
	Word  = api.Word
	Words = api.Words
)
