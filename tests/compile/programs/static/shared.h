/* The units share nothing of the library but this. */
#ifdef __cplusplus
extern "C" {
#endif
int other_copy(void);
#ifdef __cplusplus
}
#endif
