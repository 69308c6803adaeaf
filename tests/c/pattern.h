/* Bytes of a test: each seed has its own, and they do not repeat with a page. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stddef.h>

static void fill(char *bytes, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (char)(seed + i * 7 + i / 251);
}

static bool is_filled(const char *bytes, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != (char)(seed + i * 7 + i / 251))
			return false;
	return true;
}

#endif
